"""Tokens of an identity provider, and its keys."""

import asyncio
import base64
import hmac
import json
import time
from dataclasses import dataclass, field
from typing import Any

import httpx
import pytest
from joserfc import jwt
from joserfc.jwk import ECKey, KeySet, RSAKey
from pydantic import ValidationError

from durable_adk.errors import AuthenticationError, IdentityProviderError
from durable_adk.server.oidc import (
    MAX_AGE,
    MAX_AGE_UNREACHABLE,
    MIN_INTERVAL,
    Oidc,
    OidcTokens,
    ProviderKeys,
)

ISSUER = "https://id.example.com/realm"
OPTIONS = Oidc(issuer=ISSUER, audience="agents")


@dataclass
class Provider:
    """An identity provider with keys, and a clock for whoever asks it."""

    keys: list[Any] = field(default_factory=lambda: [key("one")])
    requests: list[str] = field(default_factory=list[str])
    clock: float = 1000.0
    down: bool = False
    issuer: str = ISSUER

    def serve(self, request: httpx.Request) -> httpx.Response:
        self.requests.append(str(request.url))
        if self.down:
            raise httpx.ConnectError("down")
        if request.url.path.endswith("openid-configuration"):
            jwks = "https://id.example.com/keys"
            return httpx.Response(200, json={"issuer": self.issuer, "jwks_uri": jwks})
        return httpx.Response(200, json=KeySet(self.keys).as_dict(private=False))

    def tokens(self, options: Oidc = OPTIONS) -> OidcTokens:
        transport = httpx.MockTransport(self.serve)
        return OidcTokens(options, ProviderKeys(options, lambda: self.clock, transport))


def key(name: str) -> RSAKey:
    """A key of the provider."""
    return RSAKey.generate_key(2048, {"kid": name, "use": "sig"})


def signed(by: Any, *, header: dict[str, Any] | None = None, **claims: Any) -> str:
    """A token of Alice; claims that are None are left out."""
    now = int(time.time())
    given = {"iss": ISSUER, "aud": "agents", "sub": "alice", "exp": now + 3600, **claims}
    chosen = {name: value for name, value in given.items() if value is not None}
    used = {"alg": "RS256", "kid": by.kid, **(header or {})}
    return jwt.encode(used, chosen, by, algorithms=[used["alg"]])


def part(value: Any) -> str:
    """A part of a token."""
    return base64.urlsafe_b64encode(json.dumps(value).encode()).rstrip(b"=").decode()


def with_secret(token: str, secret: bytes) -> str:
    """The token, signed with a secret by an algorithm that makes no difference of keys."""
    text = f"{part({'alg': 'HS256', 'kid': 'one'})}.{token.split('.')[1]}"
    mac = hmac.digest(secret, text.encode(), "sha256")
    return f"{text}.{base64.urlsafe_b64encode(mac).rstrip(b'=').decode()}"


async def user(tokens: OidcTokens, token: str) -> str | None:
    """Whose token it is."""
    header = (b"authorization", f"Bearer {token}".encode())
    return await tokens.user_of({"headers": [header]})


async def refused_user(tokens: OidcTokens, token: str) -> None:
    """Have a token refused."""
    with pytest.raises(AuthenticationError):
        await user(tokens, token)


async def test_a_token_of_the_provider_says_whose_it_is() -> None:
    """Its keys are found by its discovery document, and fetched once."""
    provider = Provider()
    tokens = provider.tokens()
    for audience in ("agents", ["other", "agents"]):
        assert await user(tokens, signed(provider.keys[0], aud=audience)) == "alice"
    assert provider.requests == [
        f"{ISSUER}/.well-known/openid-configuration",
        "https://id.example.com/keys",
    ]
    assert await user(tokens, "0123456789abcdef") is None  # a token of another kind


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        pytest.param({"exp": 1_000_000_000}, "expired", id="expired"),
        ({"exp": None}, "missing"),
        ({"exp": "soon"}, "other"),
        pytest.param({"nbf": 9_999_999_999}, "other", id="not valid yet"),
        ({"aud": "another"}, "other"),
        ({"aud": ["another"]}, "other"),
        ({"aud": None}, "missing"),
        ({"iss": "https://evil.example.com"}, "other"),
        ({"iss": None}, "missing"),
        ({"sub": None}, "nobody"),
        ({"sub": ["alice"]}, "other"),
        ({"sub": ""}, "nobody"),
    ],
    ids=str,
)
async def test_a_token_that_says_anything_else_is_refused(wrong: dict[str, Any], why: str) -> None:
    """Expired, not valid yet, for another server, of another issuer or nobody; it says which."""
    provider = Provider()
    with pytest.raises(AuthenticationError) as refused:
        await user(provider.tokens(), signed(provider.keys[0], **wrong))
    (claim,) = wrong
    assert (
        refused.value.message
        == {
            "expired": "The token has expired.",
            "missing": f"The token has no claim {claim!r}.",
            "nobody": f"The token has no claim {claim!r} with a user id.",
            "other": f"The token's claim {claim!r} is not what the server expects.",
        }[why]
    )


async def test_clocks_may_differ_by_the_leeway() -> None:
    """And by no more."""
    provider = Provider()
    past = signed(provider.keys[0], exp=int(time.time()) - 30)
    assert await user(provider.tokens(), past) == "alice"
    with pytest.raises(AuthenticationError):
        await user(provider.tokens(OPTIONS.model_copy(update={"leeway": 0})), past)


async def test_only_the_providers_private_key_signs() -> None:
    """Neither no algorithm, nor its public key as a secret, nor a key that the token brings."""
    provider = Provider()
    tokens, own = provider.tokens(), provider.keys[0]
    assert await user(tokens, signed(own)) == "alice"
    unsigned = f"{part({'alg': 'none', 'kid': 'one'})}.{signed(own).split('.')[1]}."
    public = own.as_pem(private=False)
    confused = with_secret(signed(own), public)
    other = key("one")
    tampered = signed(own)[:-4] + "AAAA"
    ec = ECKey.generate_key("P-256", {"kid": "one"})
    jwk = {"jwk": other.as_dict(private=False)}
    for forged in (
        unsigned,
        signed(own).rpartition(".")[0] + ".",
        confused,
        signed(other),
        signed(other, header=jwk),
        signed(other, header={"jku": "https://evil.example.com/keys"}),
        signed(ec, header={"alg": "ES256"}),
        tampered,
        "a.b.c",
        "..",
    ):
        with pytest.raises(AuthenticationError):
            await user(tokens, forged)
    assert not [url for url in provider.requests if "evil" in url]


async def test_a_new_key_is_found_and_an_invented_one_floods_nobody() -> None:
    """An unknown key id makes the keys be fetched again, at most once in half a minute."""
    provider = Provider()
    tokens = provider.tokens(OPTIONS.model_copy(update={"jwks_url": "https://id.example.com/keys"}))
    old = provider.keys[0]
    assert await user(tokens, signed(old)) == "alice"
    provider.keys = [key("two")]
    for _ in range(5):
        with pytest.raises(AuthenticationError):
            await user(tokens, signed(provider.keys[0]))
    assert len(provider.requests) == 1
    provider.clock += MIN_INTERVAL
    assert await user(tokens, signed(provider.keys[0])) == "alice"
    with pytest.raises(AuthenticationError):
        await user(tokens, signed(old))  # withdrawn
    assert len(provider.requests) == 2
    last = signed(provider.keys[0])
    provider.keys, provider.clock = [key("three")], provider.clock + MAX_AGE + 1
    with pytest.raises(AuthenticationError):
        await user(tokens, last)  # its id is known, and too old to be believed


async def test_an_unreachable_provider_keeps_nobody_out_for_a_day() -> None:
    """Known keys continue being used; without any, whose token it is cannot be said."""
    provider = Provider(down=True)
    tokens = provider.tokens()
    with pytest.raises(IdentityProviderError):
        await user(tokens, signed(provider.keys[0]))
    provider.down, provider.clock = False, provider.clock + MIN_INTERVAL
    assert await user(tokens, signed(provider.keys[0])) == "alice"
    provider.down, provider.clock = True, provider.clock + MAX_AGE + 1
    assert await user(tokens, signed(provider.keys[0])) == "alice"
    with pytest.raises(IdentityProviderError):  # it may be a new key
        await user(tokens, signed(key("two")))
    provider.clock += MAX_AGE_UNREACHABLE
    with pytest.raises(IdentityProviderError):
        await user(tokens, signed(provider.keys[0]))


@pytest.mark.parametrize("later", [MIN_INTERVAL, MAX_AGE + 1])
async def test_a_known_key_does_not_wait_for_a_slow_provider(later: float) -> None:
    """Neither for a key that is invented, nor while another request reads the keys again."""
    provider = Provider()
    asked, goes_on = asyncio.Event(), asyncio.Event()

    async def slow(request: httpx.Request) -> httpx.Response:
        asked.set()
        await goes_on.wait()
        return provider.serve(request)

    tokens = provider.tokens()
    own = signed(provider.keys[0])
    assert await user(tokens, own) == "alice"
    tokens.keys.transport = httpx.MockTransport(slow)
    provider.clock += later
    async with asyncio.TaskGroup() as group:
        other = group.create_task(refused_user(tokens, signed(key("invented"))))
        await asked.wait()
        assert await user(tokens, own) == "alice"
        assert not other.done()
        goes_on.set()


async def test_the_discovery_document_is_the_issuers_own(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """One that names another issuer is not believed, and the log has the name."""
    provider = Provider(issuer=f"{ISSUER}/")
    with pytest.raises(IdentityProviderError):
        await user(provider.tokens(), signed(provider.keys[0]))
    (line,) = [vars(record) for record in caplog.records]
    assert f"'{ISSUER}/'" in line["reason"]


async def test_an_email_address_must_be_verified() -> None:
    """Where it is the user's id, as a provider may let users write any."""
    provider = Provider()
    tokens = provider.tokens(OPTIONS.model_copy(update={"user_claim": "email"}))
    token = signed(provider.keys[0], email="a@example.com", email_verified=True)
    assert await user(tokens, token) == "a@example.com"
    for verified in (None, False, "true"):
        token = signed(provider.keys[0], email="a@example.com", email_verified=verified)
        with pytest.raises(AuthenticationError, match="verified"):
            await user(tokens, token)


@pytest.mark.parametrize(
    "wrong",
    [
        {"algorithms": ["none"]},
        {"algorithms": ["RS256", "HS256"]},
        {"algorithms": []},
        {"issuer": "http://id.example.com"},
        {"jwks_url": "file:///etc/keys"},
        {"audience": ""},
        {"leeway": 86400},
    ],
    ids=str,
)
def test_settings_that_let_others_in_are_refused(wrong: dict[str, Any]) -> None:
    """Symmetric algorithms, keys that arrive unprotected, and tokens for anybody."""
    with pytest.raises(ValidationError):
        Oidc.model_validate({**OPTIONS.model_dump(), **wrong})
