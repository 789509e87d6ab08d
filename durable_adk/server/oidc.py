"""OIDC tokens: JWTs of an identity provider, checked with its published keys (JWKS)."""

import asyncio
import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any
from urllib.parse import urlsplit

import httpx
from joserfc import jws, jwt
from joserfc.errors import ClaimError, ExpiredTokenError, JoseError, MissingClaimError
from joserfc.jwk import KeySet
from pydantic import BaseModel, ConfigDict, Field, field_validator

from durable_adk.errors import AuthenticationError, IdentityProviderError
from durable_adk.http.address import is_loopback
from durable_adk.log import get_logger
from durable_adk.server.authentication import bearer_of

ASYMMETRIC = frozenset(
    ["RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"]
)
"""Algorithms that need a private key for signing. With others, anyone could sign with the published
keys."""
TIMEOUT = 5.0
"""Seconds for a response from the identity provider."""
MAX_BYTES = 1_000_000
MAX_AGE = 3600.0
"""Seconds after which keys are fetched again, so that revoked keys expire."""
MAX_AGE_UNREACHABLE = 86400.0
"""Maximum age of keys, in seconds, while the provider is unreachable."""
MIN_INTERVAL = 30.0
"""Minimum seconds between fetches: tokens with invented key ids must not flood the provider."""
MAX_REASON = 500
"""Maximum characters of a failure in the log."""
DISCOVERY = "/.well-known/openid-configuration"

logger = get_logger(__name__)


class Oidc(BaseModel):
    """The identity provider, and the required claims of its tokens."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    issuer: str
    """The provider's URL, as in the tokens' claim ``iss``."""
    audience: Annotated[str, Field(min_length=1)]
    """The required audience in ``aud``: the provider's name for this server."""
    jwks_url: str | None = None
    """URL of the provider's keys; None: from its discovery document."""
    algorithms: Annotated[tuple[str, ...], Field(min_length=1)] = ("RS256", "ES256")
    user_claim: str = "sub"
    """The claim with the user's id. Users must not be able to choose its value themselves."""
    leeway: Annotated[int, Field(ge=0, le=300)] = 60
    """Maximum difference of clocks in seconds."""

    @field_validator("algorithms")
    @classmethod
    def _check_algorithms(cls, names: tuple[str, ...]) -> tuple[str, ...]:
        if unknown := set(names) - ASYMMETRIC:
            raise ValueError(f"{sorted(unknown)}: use some of {sorted(ASYMMETRIC)}")
        return names

    @field_validator("issuer", "jwks_url")
    @classmethod
    def _check_url(cls, url: str | None) -> str | None:
        parts = urlsplit(url or "https://_")
        if parts.scheme == "https" or (
            parts.scheme == "http" and is_loopback(parts.hostname or "")
        ):
            return url
        raise ValueError("use https: an attacker who can replace the keys can impersonate any user")


def discovery_url(options: Oidc) -> str:
    """Return the URL of the provider's discovery document."""
    return options.issuer.rstrip("/") + DISCOVERY


@dataclass
class ProviderKeys:
    """The provider's keys, fetched on demand and kept for an hour."""

    options: Oidc
    now: Callable[[], float] = time.monotonic
    transport: httpx.AsyncBaseTransport | None = None
    _keys: KeySet | None = field(default=None, init=False, repr=False)
    _fetched: float = field(default=0.0, init=False)
    _last_attempt: float | None = field(default=None, init=False)
    _is_unreachable: bool = field(default=False, init=False)
    _lock: asyncio.Lock = field(default_factory=asyncio.Lock, init=False, repr=False)

    async def find(self, key_id: str | None) -> KeySet:
        """Return the keys that may have signed a token with a key id.

        An unknown id causes another fetch, because the provider may have a new key.

        Raises:
            AuthenticationError: The provider has no such key.
            IdentityProviderError: The provider cannot be reached.
        """
        found = _with_id(self._keys, key_id)
        # With a known key, a request does not wait for another request's fetch from a slow
        # provider.
        if not found or (self._is_stale() and not self._lock.locked()):
            async with self._lock:
                if self._is_stale() or not _with_id(self._keys, key_id):
                    await self._fetch()
            found = _with_id(self._keys, key_id)
        is_old = self.now() - self._fetched > MAX_AGE_UNREACHABLE
        # While the provider is unreachable, an unknown key may be a new one.
        if self._keys is None or is_old or (not found and self._is_unreachable):
            raise IdentityProviderError
        if not found:
            raise AuthenticationError(
                "The token is signed with a key that its issuer has not published. A new key is "
                f"accepted at most {MIN_INTERVAL:.0f} s after it was published."
            )
        return KeySet(found)

    def _is_stale(self) -> bool:
        return self.now() - self._fetched > MAX_AGE

    async def _fetch(self) -> None:
        if self._last_attempt is not None and self.now() - self._last_attempt < MIN_INTERVAL:
            return
        self._last_attempt = self.now()
        try:
            async with httpx.AsyncClient(timeout=TIMEOUT, transport=self.transport) as client:
                async with asyncio.timeout(2 * TIMEOUT):
                    url = self.options.jwks_url or await self._discovered(client)
                    self._keys = KeySet.import_key_set(await _json_at(client, url))
        except (httpx.HTTPError, TimeoutError, ValueError, TypeError, KeyError, JoseError) as error:
            self._is_unreachable = True
            logger.warning(
                "oidc.unavailable",
                issuer=self.options.issuer,
                error_type=type(error).__name__,
                reason=str(error)[:MAX_REASON],
            )
            return
        self._fetched, self._is_unreachable = self.now(), False

    async def _discovered(self, client: httpx.AsyncClient) -> str:
        found = await _json_at(client, discovery_url(self.options))
        if found["issuer"] != self.options.issuer:
            raise ValueError(
                f"its discovery document names the issuer {found['issuer']!r}: "
                "if that is it, give it so, to the last slash"
            )
        return (
            Oidc.model_validate(
                {**self.options.model_dump(), "jwks_url": found["jwks_uri"]}
            ).jwks_url
            or ""
        )


@dataclass(frozen=True)
class OidcTokens:
    """Authenticates users by the tokens of an identity provider."""

    options: Oidc
    keys: ProviderKeys

    async def user_of(self, scope: Mapping[str, Any]) -> str | None:
        """See `Authenticator`."""
        token = bearer_of(scope)
        if token is None or token.count(".") != 2:  # noqa: PLR2004 - three parts
            return None
        try:
            claims = await self._claims(token)
        except (JoseError, ValueError, TypeError) as error:
            raise AuthenticationError(_refusal(error)) from None
        return self._user(claims)

    async def _claims(self, token: str) -> dict[str, Any]:
        options = self.options
        # Not verified yet; only used to select one of the issuer's keys.
        header = jws.extract_compact(token.encode()).headers()
        if header.get("alg") not in options.algorithms:
            raise AuthenticationError("The token is signed with an algorithm that is not accepted.")
        keys = await self.keys.find(header.get("kid"))
        decoded = jwt.decode(token, keys, algorithms=list(options.algorithms))
        required = jwt.JWTClaimsRegistry(
            leeway=options.leeway,
            iss={"essential": True, "value": options.issuer},
            aud={"essential": True, "value": options.audience},
            exp={"essential": True},
        )
        required.validate(decoded.claims)
        return decoded.claims

    def _user(self, claims: dict[str, Any]) -> str:
        name = self.options.user_claim
        user = claims.get(name)
        if not isinstance(user, str) or not user:
            raise AuthenticationError(f"The token has no claim {name!r} with a user id.")
        if name == "email" and claims.get("email_verified") is not True:
            raise AuthenticationError("The token's email address is not verified.")
        return user


def _refusal(error: Exception) -> str:
    match error:
        case ExpiredTokenError():
            return "The token has expired."
        case MissingClaimError():
            return f"The token has no claim {error.claim!r}."
        case ClaimError():
            return f"The token's claim {error.claim!r} is not what the server expects."
        case _:
            reason = getattr(error, "error", "") or type(error).__name__
            return f"The token is refused: {reason}."


def _with_id(keys: KeySet | None, key_id: str | None) -> list[Any]:
    """Return the keys with an id; without an id, the issuer's only key."""
    known = list(keys.keys) if keys else []
    if key_id is None:
        return known if len(known) == 1 else []
    return [key for key in known if key.kid == key_id]


async def _json_at(client: httpx.AsyncClient, url: str) -> Any:
    """Fetch a small JSON document; redirects are not followed."""
    body = bytearray()
    async with client.stream("GET", url) as response:
        response.raise_for_status()
        async for chunk in response.aiter_bytes():
            body += chunk
            if len(body) > MAX_BYTES:
                raise ValueError("too large")
    return json.loads(body)
