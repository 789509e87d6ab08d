"""The middlewares that check requests, in order."""

from collections.abc import Callable
from functools import partial
from typing import Any

from fastapi import FastAPI
from starlette.middleware.cors import CORSMiddleware

from durable_adk.http.checks import KnownHosts, KnownOrigins, OneLength, SecurityHeaders
from durable_adk.http.serving import max_connections
from durable_adk.server.authentication import Authentication, require_authentication
from durable_adk.server.limits import ANSWERS, Rates, SenderLimits
from durable_adk.server.settings import ServerSettings

PUBLIC = ("/health", "/ready")
"""Paths that probes read."""
PUBLIC_FOLDERS = (ANSWERS,)
"""Prefixes of paths that contain their own token."""
_HEADERS = (
    *("Authorization", "Content-Type", "Last-Event-ID", "Idempotency-Key", "When-Busy"),
    *("A2A-Version", "A2A-Extensions"),
)
"""Headers that pages of other origins may send (CORS)."""


def is_open(path: str) -> bool:
    """Return whether a path of the API needs no authentication."""
    return path in PUBLIC or path.startswith(PUBLIC_FOLDERS)


def _share(max_open: int) -> int:
    """Return the maximum of open requests per sender: other senders need connections, too."""
    return max(1, min(max_open, max_connections() // 2))


def _bound(
    app: FastAPI, settings: ServerSettings, is_free: Callable[[str], bool], *, several: bool
) -> None:
    """Limit each sender's requests; without authentication there is one sender, the developer."""
    rates = dict[str, Any]()
    if several:
        rates |= {
            "request_rates": Rates(settings.requests_per_second, settings.burst),
            "byte_rates": Rates(settings.bytes_per_second, settings.burst_bytes),
            "max_open": partial(_share, settings.max_open_requests),
        }
    app.add_middleware(
        SenderLimits,
        size_of=settings.body_size,
        max_unread_bytes=settings.max_unread_bytes,
        is_free=is_free,
        answer_key=settings.answer_key.get_secret_value() if settings.answer_key else None,
        **rates,
    )


def protect(
    app: FastAPI,
    settings: ServerSettings,
    *,
    host: str,
    is_free: Callable[[str], bool] = PUBLIC.__contains__,
    is_public: Callable[[str], bool] = lambda _: False,
) -> None:
    """Add all checks to an application, the last one first.

    Args:
        app: The application. Its routes must depend on `caller.caller_of`.
        settings: Its users, origins, hosts and limits.
        host: The address on which it is served.
        is_free: Whether requests to a path are not limited, such as those of probes.
        is_public: Whether a path serves no user data.

    Raises:
        InvalidRequestError: The address is not local, and there is no authentication.
    """
    means = settings.authenticators()
    require_authentication(host, means)
    _bound(app, settings, is_free, several=bool(means))
    app.add_middleware(
        Authentication,
        failures=Rates(settings.requests_per_second, settings.burst),
        means=means,
        operators=frozenset(settings.operators),
        is_public=lambda path: is_open(path) or is_public(path),
    )
    app.add_middleware(KnownOrigins, origins=frozenset(settings.origins))
    if settings.origins:
        app.add_middleware(
            CORSMiddleware,
            allow_origins=settings.origins,
            allow_methods=["GET", "POST", "PUT", "PATCH", "DELETE"],
            allow_headers=_HEADERS,
            expose_headers=["Retry-After", "Next-Page-Token"],
        )
    app.add_middleware(
        KnownHosts,
        hosts=frozenset(settings.hosts_of(host)),
        is_open=lambda path: path in PUBLIC,  # probes send the address that they connect to
    )
    app.add_middleware(OneLength)
    app.add_middleware(SecurityHeaders)
