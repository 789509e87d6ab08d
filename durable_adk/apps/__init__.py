"""Apps, and the registry of those that a worker serves."""

from durable_adk.apps.app import App
from durable_adk.apps.compaction import EventsCompactionConfig
from durable_adk.apps.registry import AppRegistry
from durable_adk.apps.resumability_config import ResumabilityConfig

__all__ = ["App", "AppRegistry", "EventsCompactionConfig", "ResumabilityConfig"]
