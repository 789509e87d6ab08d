"""`AlreadyExistsError` at ADK's module path."""

from durable_adk.errors import AlreadyExistsError

__all__ = ["AlreadyExistsError"]
