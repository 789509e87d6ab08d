"""`ToolExecutionError`, which a tool may raise to report how it failed."""

from enum import StrEnum


class ToolErrorType(StrEnum):
    """Kinds of failures, named as in HTTP."""

    BAD_REQUEST = "BAD_REQUEST"
    UNAUTHORIZED = "UNAUTHORIZED"
    FORBIDDEN = "FORBIDDEN"
    NOT_FOUND = "NOT_FOUND"
    REQUEST_TIMEOUT = "REQUEST_TIMEOUT"
    INTERNAL_SERVER_ERROR = "INTERNAL_SERVER_ERROR"
    BAD_GATEWAY = "BAD_GATEWAY"
    SERVICE_UNAVAILABLE = "SERVICE_UNAVAILABLE"
    GATEWAY_TIMEOUT = "GATEWAY_TIMEOUT"


class ToolExecutionError(Exception):
    """A tool has failed; user code raises it, and it reaches the caller like any other.

    Args:
        message: The reason.
        error_type: Its kind, or a custom text such as ``"500"``.
    """

    def __init__(self, message: str, error_type: ToolErrorType | str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.error_type = None if error_type is None else str(error_type)
