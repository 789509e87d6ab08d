"""Apps, and the registry of those a worker serves."""

from durable_adk.apps.app import App
from durable_adk.apps.registry import AppRegistry

__all__ = ["App", "AppRegistry"]
