"""The settings of the request checks, and the middlewares that perform them, in order."""

import re
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from fastapi import FastAPI
from pydantic import Field, field_validator
from pydantic_settings import BaseSettings, SettingsConfigDict
from starlette.middleware.cors import CORSMiddleware

from durable_adk.http.address import LOOPBACK, is_loopback
from durable_adk.http.checks import KnownHosts, KnownOrigins, OneLength, SecurityHeaders
from durable_adk.http.serving import max_connections
from durable_adk.server.authentication import (
    Authentication,
    Authenticator,
    BearerTokens,
    Token,
    TrustedProxy,
    require_authentication,
)
from durable_adk.server.oidc import Oidc, OidcTokens, ProviderKeys, discovery_url
from durable_adk.server.requests import ANSWERS
from durable_adk.server.requests.limits import BodySize, Rates, SenderLimits
from durable_adk.settings import AnswerKey
from durable_adk.wire.messages import MAX_BYTES

PUBLIC = ("/health", "/ready")
"""Paths that probes read."""
PUBLIC_FOLDERS = (ANSWERS,)
"""Prefixes of paths that contain their own token."""
_LARGE = re.compile(r"/apps/[^/]+/users/[^/]+/sessions(/[^/]+/artifacts)?|/agui/[^/]+")
"""Paths of requests that may contain files or a whole conversation."""
_HEADERS = (
    *("Authorization", "Content-Type", "Last-Event-ID", "Idempotency-Key", "When-Busy"),
    *("A2A-Version", "A2A-Extensions"),
)
"""Headers that pages of other origins may send (CORS)."""


def is_open(path: str) -> bool:
    """Return whether a path of the API needs no authentication."""
    return path in PUBLIC or path.startswith(PUBLIC_FOLDERS)


class AccessSettings(BaseSettings):
    """Access settings of the server, from ``DURABLE_ADK_SERVER_*`` variables."""

    model_config = SettingsConfigDict(
        env_prefix="DURABLE_ADK_SERVER_",
        extra="ignore",
        populate_by_name=True,
        hide_input_in_errors=True,  # inputs may be secrets, and errors are logged
    )

    tokens: list[Token] = Field(default_factory=list[Token])
    """Users' bearer tokens: a JSON list of digests and user ids, see `Token`."""
    tokens_file: Path | None = None
    """A file with the same kind of list, read again when it changes."""
    proxy_header: str | None = None
    """The header in which an authenticating proxy sends the user's id."""
    trusted_proxies: list[str] = Field(default_factory=list[str])
    """Addresses or networks of trusted proxies; the header is ignored from others."""
    oidc: Oidc | None = None
    """The identity provider whose tokens are accepted, as JSON."""
    operators: list[str] = Field(default_factory=list[str])
    """Ids of users who may act for all users, e.g. in the inbox over all sessions."""
    hosts: list[str] = Field(default_factory=list[str])
    """The server's host names. Without any: on the loopback those of this machine, else all."""
    origins: list[str] = Field(default_factory=list[str])
    """Other origins with pages that may use the server, such as ``https://app.example.com``."""
    answer_key: AnswerKey | None = Field(default=None, validation_alias="DURABLE_ADK_ANSWER_KEY")
    """The workers' key for answer URLs in webhooks; None: answer URLs are not served."""
    max_body_bytes: int = Field(default=20_000_000, ge=1)
    """Maximum size of a request with files or a whole conversation."""
    max_message_bytes: int = Field(default=3 * MAX_BYTES, ge=1)
    """Maximum size of other requests: JSON may escape their content."""
    max_body_values: int = Field(default=50_000, ge=100)
    """Maximum number of texts, items and fields in a request; a tenth of it for objects. A2A: a
    fifth."""
    requests_per_second: float = Field(default=50.0, gt=0, allow_inf_nan=False)
    """Average requests per second of a user to this process. A stream counts once."""
    burst: int = Field(default=200, ge=1)
    """Requests that a user may send at once, after being idle."""
    bytes_per_second: float = Field(default=1_000_000.0, gt=0, allow_inf_nan=False)
    """Average bytes of bodies per second of a user to this process. Each text, item or field adds
    40 bytes; responses count a quarter."""
    burst_bytes: int = Field(default=25_000_000, ge=1)
    """Bytes that a user may send at once, after being idle. A single body may exceed it."""
    max_open_requests: int = Field(default=200, ge=1)
    """Maximum number of a user's open requests to this process, including streams; less if the
    limit of open files requires it."""
    max_unread_bytes: int = Field(default=50_000_000, ge=1)
    """Maximum bytes of responses to a user that wait to be read."""

    @field_validator("origins")
    @classmethod
    def _check_origins(cls, origins: list[str]) -> list[str]:
        for one in origins:
            parts = urlsplit(one)
            if not parts.netloc or one != f"{parts.scheme}://{parts.netloc}".lower():
                raise ValueError(
                    f"{one!r}: browsers send origins such as https://app.example.com, in small "
                    "letters and without a path"
                )
        return origins

    def authenticators(self) -> list[Authenticator]:
        """Return the configured authenticators; without any, requests are not authenticated.

        Raises:
            InvalidRequestError: The configuration of one is invalid.
        """
        found: list[Authenticator] = []
        if self.proxy_header is not None:
            found.append(TrustedProxy(self.proxy_header, self.trusted_proxies))
        if self.tokens or self.tokens_file is not None:
            found.append(BearerTokens(self.tokens, self.tokens_file))
        if self.oidc is not None:
            found.append(OidcTokens(self.oidc, ProviderKeys(self.oidc)))
        return found

    def security_schemes(self) -> dict[str, dict[str, str]]:
        """Return the configured authenticators as OpenAPI security schemes, by name."""
        found = dict[str, dict[str, str]]()
        if self.proxy_header is not None:
            description = (
                "The user. The proxy that authenticates users sets it, and not the client."
            )
            found["proxy"] = {"type": "apiKey", "in": "header", "name": self.proxy_header}
            found["proxy"]["description"] = description
        if self.tokens or self.tokens_file is not None:
            found["bearer"] = {"type": "http", "scheme": "bearer"}
        if self.oidc is not None:
            url = discovery_url(self.oidc)
            found["oidc"] = {"type": "openIdConnect", "openIdConnectUrl": url}
        return found

    def body_size(self, path: str) -> BodySize:
        """Return the maximum size of request bodies for a path."""
        if path.startswith(ANSWERS):
            most = 2 * MAX_BYTES  # enough for an answer by URL
        else:
            most = self.max_body_bytes if _LARGE.fullmatch(path) else self.max_message_bytes
        # Python code parses the messages of A2A.
        values = self.max_body_values // (5 if path.startswith("/a2a/") else 1)
        return BodySize(min(most, self.max_body_bytes), values)

    def hosts_of(self, host: str) -> list[str]:
        """Return the permitted host names for requests to an address; ``*`` for any."""
        names = [name.strip("[]").lower() for name in (*self.hosts, *LOOPBACK)]
        return names if self.hosts or is_loopback(host) else ["*"]


def _share(max_open: int) -> int:
    """Return the maximum of open requests per sender: other senders need connections, too."""
    return max(1, min(max_open, max_connections() // 2))


def _bound(
    app: FastAPI, settings: AccessSettings, is_free: Callable[[str], bool], *, several: bool
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
    settings: AccessSettings,
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
