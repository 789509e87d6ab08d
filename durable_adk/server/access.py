"""All checks of a request, in their order, and their settings."""

import re
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
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
from durable_adk.server.requests.limits import (
    BodyLimit,
    BodySize,
    ByteRate,
    OpenLimit,
    RateLimit,
    Rates,
)
from durable_adk.settings import AnswerKey
from durable_adk.wire.messages import MAX_BYTES

PUBLIC = ("/health", "/ready")
"""Paths that probes read."""
PUBLIC_FOLDERS = (ANSWERS,)
"""Starts of the paths that have a token of their own."""
_LARGE = re.compile(r"/apps/[^/]+/users/[^/]+/sessions(/[^/]+/artifacts)?|/agui/[^/]+")
"""Paths of requests with files, or with a whole conversation."""
_HEADERS = (
    *("Authorization", "Content-Type", "Last-Event-ID", "Idempotency-Key", "When-Busy"),
    *("A2A-Version", "A2A-Extensions"),
)
"""Headers that pages of other origins may send."""


def is_open(path: str) -> bool:
    """Whether a path of the API is served to those who are not authenticated."""
    return path in PUBLIC or path.startswith(PUBLIC_FOLDERS)


class AccessSettings(BaseSettings):
    """Settings of who may use the server, from ``DURABLE_ADK_SERVER_*`` variables."""

    model_config = SettingsConfigDict(
        env_prefix="DURABLE_ADK_SERVER_",
        extra="ignore",
        populate_by_name=True,
        hide_input_in_errors=True,  # which may be secrets, and errors are logged
    )

    tokens: list[Token] = Field(default_factory=list[Token])
    """Users' bearer tokens: a JSON list of their digests, as in `tokens_file`."""
    tokens_file: Path | None = None
    """A file with such a list; it is read again when it changes."""
    proxy_header: str | None = None
    """The header in which a proxy that authenticates users names them."""
    trusted_proxies: list[str] = Field(default_factory=list[str])
    """Addresses or networks from which that header is believed."""
    oidc: Oidc | None = None
    """The identity provider whose tokens are accepted, as JSON."""
    operators: list[str] = Field(default_factory=list[str])
    """Ids of the users who may act for all users, such as in the inbox over all sessions."""
    hosts: list[str] = Field(default_factory=list[str])
    """The server's host names. None: those of this machine itself where the server listens on the
    loopback; any where it authenticates users."""
    origins: list[str] = Field(default_factory=list[str])
    """Origins of pages elsewhere that may use the server, such as ``https://app.example.com``."""
    answer_key: AnswerKey | None = Field(default=None, validation_alias="DURABLE_ADK_ANSWER_KEY")
    """The workers' key of the URLs in webhooks that answer a call; None: none are served."""
    max_body_bytes: int = Field(default=20_000_000, ge=1)
    """Maximum size of a request with files or a whole conversation."""
    max_message_bytes: int = Field(default=3 * MAX_BYTES, ge=1)
    """Maximum size of other requests: JSON may escape what it holds."""
    max_body_values: int = Field(default=50_000, ge=100)
    """Maximum of texts, items and fields in a request; objects a tenth. For A2A a fifth of it."""
    requests_per_second: float = Field(default=50.0, gt=0, allow_inf_nan=False)
    """Requests of one user per second, on average, to this process. Streams count once."""
    burst: int = Field(default=200, ge=1)
    """Requests that a user may send at once, after a pause."""
    bytes_per_second: float = Field(default=1_000_000.0, gt=0, allow_inf_nan=False)
    """Bytes of bodies of one user per second, on average, to this process. A text, item or field
    counts 40 more; answers count a quarter."""
    burst_bytes: int = Field(default=25_000_000, ge=1)
    """Bytes that a user may send at once, after a pause. One body may have more."""
    max_open_requests: int = Field(default=200, ge=1)
    """Requests that a user may have open, streams among them, at this process; fewer if it may not
    open so many files."""
    max_unread_bytes: int = Field(default=50_000_000, ge=1)
    """Bytes of answers to a user that wait to be read."""

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
        """Return the ways to authenticate that are set; none: nobody is asked who they are.

        Raises:
            InvalidRequestError: One cannot work as it is set.
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
        """Return the ways to authenticate that are set as OpenAPI describes them, by a name."""
        found = dict[str, dict[str, str]]()
        if self.proxy_header is not None:
            told = "The user. The proxy that authenticates users sets it, and not the client."
            found["proxy"] = {"type": "apiKey", "in": "header", "name": self.proxy_header}
            found["proxy"]["description"] = told
        if self.tokens or self.tokens_file is not None:
            found["bearer"] = {"type": "http", "scheme": "bearer"}
        if self.oidc is not None:
            url = discovery_url(self.oidc)
            found["oidc"] = {"type": "openIdConnect", "openIdConnectUrl": url}
        return found

    def body_size(self, path: str) -> BodySize:
        """Return the size that the body of a request of a path may have."""
        if path.startswith(ANSWERS):
            most = 2 * MAX_BYTES  # an answer by URL needs no more
        else:
            most = self.max_body_bytes if _LARGE.fullmatch(path) else self.max_message_bytes
        # The messages of A2A are read in Python.
        values = self.max_body_values // (5 if path.startswith("/a2a/") else 1)
        return BodySize(min(most, self.max_body_bytes), values)

    def hosts_of(self, host: str) -> list[str]:
        """Return the host names that requests to an address may have; ``*`` for any."""
        names = [name.strip("[]").lower() for name in (*self.hosts, *LOOPBACK)]
        return names if self.hosts or is_loopback(host) else ["*"]


def _share(max_open: int) -> int:
    """Return how many requests one sender may have open: others need connections, too."""
    return max(1, min(max_open, max_connections() // 2))


def _bound(
    app: FastAPI, settings: AccessSettings, is_free: Callable[[str], bool], *, several: bool
) -> None:
    """Bound what each sender takes; without authentication there is one, the developer."""
    key = settings.answer_key.get_secret_value() if settings.answer_key else None
    byte_rate = None
    if several:
        byte_rate = ByteRate(Rates(settings.bytes_per_second, settings.burst_bytes), answer_key=key)
    app.add_middleware(BodyLimit, size_of=settings.body_size, byte_rate=byte_rate)
    if several:
        rates = Rates(settings.requests_per_second, settings.burst)
        app.add_middleware(
            RateLimit, rates=rates, is_free=is_free, byte_rate=byte_rate, answer_key=key
        )
    # Before the rate, so that what is held back for it counts as open.
    app.add_middleware(
        OpenLimit,
        max_open=partial(_share, settings.max_open_requests) if several else lambda: sys.maxsize,
        max_unread_bytes=settings.max_unread_bytes,
        is_free=is_free,
        byte_rate=byte_rate,
        answer_key=key,
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
        is_free: Whether requests of a path are not counted, such as those of probes.
        is_public: Whether a path has no data of any user.

    Raises:
        InvalidRequestError: Others could reach it without authentication.
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
        is_open=lambda path: path in PUBLIC,  # probes name the address that they ask
    )
    app.add_middleware(OneLength)
    app.add_middleware(SecurityHeaders)
