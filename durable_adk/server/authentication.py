"""Authentication by bearer tokens, by OIDC tokens, or by a trusted proxy (S9)."""

import hashlib
import hmac
import ipaddress
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Protocol

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError
from starlette.types import ASGIApp, Receive, Scope, Send

from durable_adk.errors import (
    AuthenticationError,
    DurableAdkError,
    IdentityProviderError,
    InvalidRequestError,
    PermissionDeniedError,
)
from durable_adk.http.address import is_loopback
from durable_adk.http.responses import address_of, path_of, refuse, values_of
from durable_adk.json_values import MAX_ID
from durable_adk.log import get_logger
from durable_adk.server.caller import UNAUTHENTICATED_OPERATOR, Caller, identify
from durable_adk.server.limits import Rates, refuse_for

CHALLENGE = {"www-authenticate": "Bearer"}
_WAYS = "DURABLE_ADK_SERVER_TOKENS_FILE, DURABLE_ADK_SERVER_PROXY_HEADER or DURABLE_ADK_SERVER_OIDC"
_FORWARDED = ("x-forwarded-for", "forwarded", "x-real-ip")
"""Headers that a proxy adds. If a server takes the peer's address from them, anyone can forge
it."""
_HEADER_NAME = re.compile(r"[A-Za-z0-9-]+")

logger = get_logger(__name__)


class Authenticator(Protocol):
    """One way to authenticate the sender of a request."""

    async def user_of(self, scope: Mapping[str, Any]) -> str | None:
        """Return the id of a request's user; None if it has no credentials of this kind.

        Raises:
            AuthenticationError: Its credentials are invalid.
            IdentityProviderError: They cannot be checked at the moment.
        """
        ...


def bearer_of(scope: Mapping[str, Any]) -> str | None:
    """Return the token in the ``Authorization`` header of a request.

    Raises:
        AuthenticationError: There are several such headers.
    """
    header_values = values_of(scope, "authorization")
    if len(header_values) > 1:
        raise AuthenticationError("The request has several Authorization headers.")
    scheme, _, token = (header_values[0] if header_values else "").partition(" ")
    return token.strip() if scheme.lower() == "bearer" else None


class Token(BaseModel):
    """A bearer token: its digest and its user."""

    model_config = ConfigDict(extra="forbid")

    user: Annotated[str, Field(min_length=1, max_length=MAX_ID)]
    sha256: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
    """The digest in hexadecimal. Tokens are random with at least 128 bits, so a fast digest does
    not reveal them."""


_TOKENS = TypeAdapter(list[Token])


@dataclass
class BearerTokens:
    """Authenticates users by the digests of their tokens.

    A file is read again when it changes, so a token can be revoked without a restart.
    """

    tokens: Sequence[Token] = ()
    file: Path | None = None
    """A file with a JSON list of such tokens."""
    _known: Sequence[Token] = field(default=(), init=False, repr=False)
    _as_of: tuple[int, int] | None = field(default=None, init=False, repr=False)

    def __post_init__(self) -> None:
        """Read the file."""
        self._in_file()

    async def user_of(self, scope: Mapping[str, Any]) -> str | None:
        """See `Authenticator`."""
        token = bearer_of(scope)
        if token is None:
            return None
        digest = hashlib.sha256(token.encode()).hexdigest()
        # All tokens are compared, to avoid a timing side channel.
        found = [
            known.user
            for known in (*self.tokens, *self._in_file())
            if hmac.compare_digest(known.sha256, digest)
        ]
        return found[0] if found else None

    def _in_file(self) -> Sequence[Token]:
        if self.file is None:
            return ()
        try:
            stat = self.file.stat()
            as_of = stat.st_mtime_ns, stat.st_size
            if as_of != self._as_of:
                self._known, self._as_of = _TOKENS.validate_json(self.file.read_bytes()), as_of
        except (OSError, ValidationError) as error:
            reason = error.strerror if isinstance(error, OSError) else "it has another form"
            raise InvalidRequestError(
                f"The tokens in {str(self.file)!r} cannot be read ({reason}). It must be a JSON "
                'list such as [{"user": "alice", "sha256": "<digest of the token>"}].'
            ) from None
        return self._known


@dataclass(frozen=True)
class TrustedProxy:
    """Authenticates the user whom a proxy has authenticated and names in a header.

    The header counts only from the proxy's own address, because anyone can send it.

    Raises:
        InvalidRequestError: There is no address, or one is malformed.
    """

    header: str
    """The header's name, such as ``X-Forwarded-User``."""
    peers: Sequence[str]
    """Addresses or networks of proxies, such as ``10.0.0.0/8``."""

    def __post_init__(self) -> None:
        """Check the header's name and the addresses."""
        if not _HEADER_NAME.fullmatch(self.header):
            raise InvalidRequestError(f"{self.header!r} is no name of a header.")
        if not self.peers or not self._networks():
            raise InvalidRequestError(
                f"Any client can send the header {self.header!r}: set "
                "DURABLE_ADK_SERVER_TRUSTED_PROXIES to the addresses of the proxy that sets it."
            )

    async def user_of(self, scope: Mapping[str, Any]) -> str | None:
        """See `Authenticator`."""
        header_values = values_of(scope, self.header.lower())
        if not header_values or not self._trusts(scope):
            return None
        if len(header_values) > 1:
            raise AuthenticationError(f"The request has several headers {self.header!r}.")
        try:
            # Decoded like paths. Only HTTP's white space is stripped: other white space may
            # distinguish users.
            return header_values[0].encode("latin-1").decode().strip(" \t") or None
        except UnicodeDecodeError:
            raise AuthenticationError(
                f"The header {self.header!r} is not UTF-8; have the proxy send it so."
            ) from None

    def _trusts(self, scope: Mapping[str, Any]) -> bool:
        try:
            address = ipaddress.ip_address(address_of(scope))
        except ValueError:
            return False
        address = getattr(address, "ipv4_mapped", None) or address
        return any(address in network for network in self._networks())

    def _networks(self) -> list[ipaddress.IPv4Network | ipaddress.IPv6Network]:
        try:
            return [ipaddress.ip_network(peer, strict=False) for peer in self.peers]
        except ValueError as error:
            raise InvalidRequestError(f"DURABLE_ADK_SERVER_TRUSTED_PROXIES: {error}") from None


def _not_local(scope: Mapping[str, Any]) -> str | None:
    """Return why a request may come from another machine; None if it comes from this one."""
    for name in _FORWARDED:
        if values_of(scope, name):
            return (
                f"this one was forwarded by a proxy, as its header {name} says. A proxy that only "
                "this machine can reach, such as that of a development server, may leave it out"
            )
    # A Unix socket has no address, and usually serves a proxy.
    return (
        None if is_loopback(address_of(scope)) else "the address of this one is unknown or remote"
    )


def require_authentication(host: str, means: Collection[Authenticator]) -> None:
    """Check that a server that other machines can reach authenticates its clients.

    Raises:
        InvalidRequestError: It does not.
    """
    if not means and not is_loopback(host):
        raise InvalidRequestError(
            f"The server would listen on {host}, where other machines can reach it, without "
            f"authentication. Set {_WAYS}, or listen on 127.0.0.1."
        )


@dataclass(frozen=True)
class Authentication:
    """ASGI middleware that authenticates the sender of a request, and refuses unknown senders."""

    app: ASGIApp
    means: Sequence[Authenticator]
    """Tried in order. If empty, local requests act as operator and all others are refused."""
    operators: Collection[str] = ()
    """Ids of users who may act for all users."""
    is_public: Callable[[str], bool] = lambda _: False
    """Whether a path needs no authentication, such as those of the page's files."""
    failures: Rates | None = None
    """Maximum rate of failures by address. Authenticated requests are neither counted nor
    refused."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request."""
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
            return
        try:
            caller = await self._caller(scope)
        except AuthenticationError as error:
            wait = self.failures.take(address_of(scope)) if self.failures else 0.0
            if wait > 0:
                await refuse_for(send, wait)
                return
            logger.warning("server.refused", reason=error.message)
            await refuse(send, 401, error, CHALLENGE)
        except PermissionDeniedError as error:
            logger.warning("server.refused", reason=error.message)
            await refuse(send, 403, error)
        except IdentityProviderError as error:
            await refuse(send, 503, error, {"retry-after": "5"})
        except DurableAdkError:  # e.g. the file of tokens is unreadable
            logger.exception("server.authentication")
            await refuse(send, 503, IdentityProviderError("Authentication is unavailable now."))
        else:
            identify(scope, caller)
            await self.app(scope, receive, send)

    async def _caller(self, scope: Scope) -> Caller:
        refused = None if self.means else _not_local(scope)
        if not self.means and refused is None:
            return UNAUTHENTICATED_OPERATOR
        if self.is_public(path_of(scope)):
            return Caller()
        if refused is not None:  # e.g. mounted in an application with another address
            raise PermissionDeniedError(
                "The server has no authentication, so it serves only requests of this machine to "
                f"its loopback addresses, and {refused}. To serve others, set {_WAYS}."
            )
        for one in self.means:
            user = await one.user_of(scope)
            if user is not None:
                return self._known(user)
        raise AuthenticationError("A token is required, and must be one that is known here.")

    def _known(self, user: str) -> Caller:
        # Session keys strip ids: an id with white space could equal that of another user.
        if user.strip() != user or not 1 <= len(user) <= MAX_ID:
            raise AuthenticationError(
                f"A user id must have 1 to {MAX_ID} characters, and no white space around them."
            )
        return Caller(user, is_operator=user in self.operators)
