"""Maps exceptions of the Gemini client to this package's errors."""

import email.utils
import importlib
import json
import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

from google.auth.exceptions import GoogleAuthError
from google.genai.errors import APIError, UnknownApiResponseError

from durable_adk.errors import DurableAdkError, ModelError, ModelUnavailableError
from durable_adk.settings import env_files_searched

_STATUS = re.compile("[A-Z][A-Z_]+")
_TRANSIENT_CODES = {408, 429}
_SERVER_ERROR = 500
_LONGEST = 1000


_HTTPX = ("TimeoutException", "NetworkError", "RemoteProtocolError", "ProxyError")


def _network_errors() -> Iterator[type[Exception]]:
    # The client uses whichever of these is installed; each has its own exceptions.
    for library, names in (
        ("httpx2", _HTTPX),
        ("httpx", _HTTPX),
        ("aiohttp", ("ClientConnectionError", "ClientPayloadError")),
    ):
        with suppress(ImportError):
            module = importlib.import_module(library)
            yield from (getattr(module, name) for name in names)


NETWORK_ERRORS = (*_network_errors(), OSError)
"""Exceptions of the installed HTTP libraries for connections that failed or were cut."""


def to_error(error: Exception) -> DurableAdkError:
    """Convert an exception of the client to a retryable or permanent error (TRAP-40).

    Overload (429), server errors (5xx), timeouts and network errors become
    `ModelUnavailableError`; everything else becomes `ModelError`. `error_type` is Google's status
    name (``INVALID_ARGUMENT``), or the name of the exception class.
    """
    text = str(error) or type(error).__name__
    name = type(error).__name__
    match error:
        case DurableAdkError():
            result = error
        case APIError():
            result = _of_status(error)
        case (
            UnknownApiResponseError() | json.JSONDecodeError()
        ):  # the message quotes the response, which may be private
            result = ModelUnavailableError("Gemini's answer is not JSON; it was cut short.")
        case GoogleAuthError():
            retryable = bool(getattr(error, "retryable", False))
            kind = ModelUnavailableError if retryable else ModelError
            # Not "Gemini's": Google also serves other makers' models.
            result = kind(f"No access with Google's credentials: {text}", error_type=name)
        case _ if isinstance(error, NETWORK_ERRORS):
            result = ModelUnavailableError(f"No connection to Gemini: {text}", error_type=name)
        case ValueError() if "api key" in text.lower():
            result = ModelError(f"There is no API key for Gemini. {_remedy(env_files_searched())}")
        case _:
            result = ModelError(f"Gemini could not be asked: {text}", error_type=name)
    return result


def _remedy(searched: Iterable[str] = ()) -> str:
    where = "".join(f" ({one})" for one in searched)
    return (
        f"Set GEMINI_API_KEY in the environment or in the agent's .env file{where}; get a key at "
        "https://aistudio.google.com/apikey, or use model='offline' to try things without one."
    )


def retry_after(error: APIError) -> float | None:
    """Return the retry delay in seconds from the Retry-After header, or RetryInfo in the body."""
    raised: Any = error  # the client's types refer to HTTP libraries that need not be installed
    headers: Any = getattr(raised.response, "headers", None) or {}
    seconds = header_seconds(headers.get("retry-after"))
    return _body_seconds(raised.details) if seconds is None else seconds


def _of_status(error: APIError) -> DurableAdkError:
    status = error.status or ""
    name = status if _STATUS.fullmatch(status) else f"HTTP_{error.code}"
    reason = (error.message or "no reason given")[:_LONGEST]  # it may be a whole HTML page
    text = f"Gemini answered {error.code} {name}: {reason}"
    if error.code in _TRANSIENT_CODES or error.code >= _SERVER_ERROR:
        return ModelUnavailableError(text, retry_after=retry_after(error), error_type=name)
    if "api key" in text.lower():
        text += f" {_remedy()}"
    return ModelError(text, error_type=name)


def header_seconds(value: str | None) -> float | None:
    """Return the delay of a Retry-After header in seconds."""
    if not value:
        return None
    if re.fullmatch(r"\d+(\.\d+)?", value.strip()):
        return float(value)
    try:
        when = email.utils.parsedate_to_datetime(value)
    except ValueError:
        return None
    return max(0.0, (when - datetime.now(UTC)).total_seconds())


def _body_seconds(details: Any) -> float | None:
    # google.rpc.RetryInfo among error.details, its delay a protobuf duration such as "1.5s".
    found = re.search(r'"retryDelay": "(\d+(?:\.\d+)?)s"', json.dumps(details, default=repr))
    return float(found[1]) if found else None
