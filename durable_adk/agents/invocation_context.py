"""`InvocationContext` at the path ADK gives it."""

from durable_adk.context import InvocationContext

__all__ = ["InvocationContext"]
