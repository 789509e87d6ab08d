"""`SessionNotFoundError` at ADK's module path."""

from durable_adk.errors import SessionNotFoundError

__all__ = ["SessionNotFoundError"]
