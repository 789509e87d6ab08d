"""`ReadonlyContext` at the path ADK gives it."""

from durable_adk.context.activity import ReadonlyContext

__all__ = ["ReadonlyContext"]
