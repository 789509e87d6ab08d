"""`InputValidationError`, ADK's name for a malformed request."""

from durable_adk.errors import InvalidRequestError as InputValidationError

__all__ = ["InputValidationError"]
