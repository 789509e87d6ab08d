"""`SessionNotFoundError` at the path ADK gives it."""

from durable_adk.errors import SessionNotFoundError

__all__ = ["SessionNotFoundError"]
