"""`ReadonlyContext` at the path ADK gives it."""

from durable_adk.context import ReadonlyContext

__all__ = ["ReadonlyContext"]
