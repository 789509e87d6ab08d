"""`GoogleMapsGroundingTool` at ADK's import path."""

from durable_adk.tools._provider_tools import GoogleMapsGroundingTool, google_maps_grounding

__all__ = ["GoogleMapsGroundingTool", "google_maps_grounding"]
