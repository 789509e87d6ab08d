"""Classification of errors of google-adk's models as transient or permanent."""

import socket
import ssl
from collections.abc import Iterator, Mapping
from typing import Any, cast

from google.auth.exceptions import GoogleAuthError
from google.genai.errors import APIError, UnknownApiResponseError

from durable_adk.errors import DurableAdkError, ModelUnavailableError, wrapped
from durable_adk.models._gemini_errors import NETWORK_ERRORS, header_seconds, to_error

_PASSES = {408, 409, 425, 429}
"""HTTP statuses below 500 after which a retry may succeed; 409 is a provider's lock conflict."""
_SERVER_ERROR = 500
_NO_CONNECTION = {"APIConnectionError", "APITimeoutError", "Timeout"}
"""Connection errors of openai, anthropic and litellm by class name; they have no status."""
_PASSING_TYPES = {
    "api_error",
    "internal_server_error",
    "overloaded_error",
    "rate_limit_error",
    "server_error",
    "timeout_error",
}
"""Types of transient errors that providers send in a stream, after the status 200."""
_LASTING_CODES = {"insufficient_quota", "billing_hard_limit_reached"}
"""Codes of permanent errors that have the status 429."""
_NETWORK = (
    *(kind for kind in NETWORK_ERRORS if kind is not OSError),
    ConnectionError,
    TimeoutError,
    socket.gaierror,
    ssl.SSLError,
)
"""Connection errors; not OSError, which also means e.g. a missing file."""
_LIBRARIES = ("openai", "anthropic", "litellm")
_MAX_CAUSES = 5


def sorted_error(error: Exception) -> Exception:
    """Return the error with which a model call fails.

    A transient error (rate limit, overload, server error, or a failed or cut connection) becomes a
    `ModelUnavailableError` with the provider's retry delay. Any other error is returned unchanged,
    and ends the run.
    """
    if isinstance(error, DurableAdkError):
        return error
    if isinstance(error, APIError | UnknownApiResponseError | GoogleAuthError):
        return to_error(error)
    if not _passes(error):
        return error
    result = wrapped(ModelUnavailableError, error)
    cast("ModelUnavailableError", result).retry_after = _retry_after(error)
    return result


def _passes(error: Exception) -> bool:
    body = _body(error)
    if body.get("code") in _LASTING_CODES or getattr(error, "code", None) in _LASTING_CODES:
        return False
    status = _status(error)
    if _is_no_connection(error):
        return True
    if status is not None and status >= 400:  # noqa: PLR2004 - where HTTP's errors begin
        return status in _PASSES or status >= _SERVER_ERROR
    return body.get("type") in _PASSING_TYPES or isinstance(error, _NETWORK)


def _is_no_connection(error: Exception) -> bool:
    return any(
        kind.__name__ in _NO_CONNECTION and kind.__module__.startswith(_LIBRARIES)
        for kind in type(error).__mro__
    )


def _status(error: Exception) -> int | None:
    """Return the HTTP status; httpx's own errors have it in their response."""
    own: Any = getattr(error, "status_code", None)
    response: Any = getattr(error, "response", None)
    for status in (own, getattr(response, "status_code", None)):
        if isinstance(status, int):
            return status
    return None


def _body(error: Exception) -> Mapping[str, Any]:
    """Return the provider's error object; Anthropic nests it one level deeper."""
    body: Any = getattr(error, "body", None)
    inner: Any = cast("Any", body).get("error", body) if isinstance(body, dict) else None
    return cast("Mapping[str, Any]", inner) if isinstance(inner, dict) else {}


def _retry_after(error: Exception) -> float | None:
    """Return the provider's retry delay in seconds, from the error or one of its causes."""
    for one in _chain(error):
        headers = _headers(one)
        milliseconds = header_seconds(headers.get("retry-after-ms"))
        if milliseconds is not None:
            return milliseconds / 1000
        seconds = header_seconds(headers.get("retry-after"))
        if seconds is not None:
            return seconds
    return None


def _chain(error: BaseException) -> Iterator[BaseException]:
    one: BaseException | None = error
    for _ in range(_MAX_CAUSES):
        if one is None:
            return
        yield one
        one = one.__cause__ or one.__context__


def _headers(error: BaseException) -> Mapping[str, str]:
    for holder in (getattr(error, "response", None), error):
        for name in ("headers", "litellm_response_headers"):
            headers: Any = getattr(holder, name, None)
            if headers:
                return {str(key).lower(): str(value) for key, value in dict(headers).items()}
    return {}
