"""`GoogleSearchTool` at ADK's import path."""

from durable_adk.tools._provider_tools import GoogleSearchTool, google_search

__all__ = ["GoogleSearchTool", "google_search"]
