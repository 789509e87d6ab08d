"""`NotFoundError` at the path ADK gives it."""

from durable_adk.errors import NotFoundError

__all__ = ["NotFoundError"]
