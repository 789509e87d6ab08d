"""`AlreadyExistsError` at the path ADK gives it."""

from durable_adk.errors import AlreadyExistsError

__all__ = ["AlreadyExistsError"]
