"""`Context` at the path ADK gives it."""

from durable_adk.context.activity import Context

__all__ = ["Context"]
