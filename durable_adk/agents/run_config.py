"""`RunConfig` at the path ADK gives it."""

from durable_adk.run_config import RunConfig

__all__ = ["RunConfig"]
