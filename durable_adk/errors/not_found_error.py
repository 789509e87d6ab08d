"""`NotFoundError` at ADK's module path."""

from durable_adk.errors import NotFoundError

__all__ = ["NotFoundError"]
