"""Settings of the HTTP server."""

import re
from pathlib import Path
from urllib.parse import urlsplit

from pydantic import Field, field_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

from durable_adk.http.address import LOOPBACK, is_loopback
from durable_adk.server.authentication import Authenticator, BearerTokens, Token, TrustedProxy
from durable_adk.server.limits import ANSWERS, BodySize
from durable_adk.server.oidc import Oidc, OidcTokens, ProviderKeys, discovery_url
from durable_adk.settings import AnswerKey, FiniteSeconds, PushHost
from durable_adk.wire.messages import MAX_BYTES

_LARGE = re.compile(r"/apps/[^/]+/users/[^/]+/sessions(/[^/]+/artifacts)?|/agui/[^/]+")
"""Paths of requests that may contain files or a whole conversation."""


class ServerSettings(BaseSettings):
    """Settings of the HTTP server, from ``DURABLE_ADK_SERVER_*`` variables."""

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

    host: str = "127.0.0.1"
    """The address to listen on."""
    port: int = Field(default=8000, ge=0, le=65535)
    """The port; 0: any free port."""
    public_url: str | None = None
    """The public URL in agent cards, if it differs from the address."""
    push_notifications: bool = True
    """Whether workers send push notifications for clients of A2A."""
    push_hosts: list[PushHost] = Field(
        default_factory=list[PushHost], validation_alias="DURABLE_ADK_PUSH_HOSTS"
    )
    """Same as the workers' `Settings.push_hosts`."""
    apps: list[str] = Field(default_factory=list[str])
    """Names of the apps, as JSON; none: those that workers serve or that have sessions."""
    adk_ui: Path | None = None
    """Folder with the files of ADK's web page; None: those of an installed google-adk."""
    temporal_ui: str | None = None
    """Address of Temporal's UI, for links from invocations."""
    max_list_bytes: int = Field(default=2_000_000, ge=1)
    """Size of states, or of A2A tasks, after which a page of a list ends."""
    max_session_bytes: int = Field(default=50_000_000, ge=1)
    """Maximum bytes of events in a session that is read as a whole."""
    max_stored_bytes: int = Field(default=1_000_000_000, ge=1)
    """Maximum bytes in artifacts, and characters in sessions, of a user of an app. Operators have
    no limit."""
    ping_seconds: FiniteSeconds = Field(default=15.0, gt=0)
    """Seconds between two comments in a stream, which keep its connection open."""
    retry_milliseconds: int = Field(default=1000, ge=0)
    """Milliseconds that a reader waits before it reconnects."""
    drain_seconds: FiniteSeconds = Field(default=10.0, ge=0)
    """Seconds for responses to complete when the server is stopped."""

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
