"""OAuth2: the page of consent, and the token for the code."""

from base64 import b64encode
from collections.abc import Iterator
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from pydantic import TypeAdapter

from durable_adk.auth import AuthConfig, AuthCredential, AuthCredentialTypes, OAuth2Auth
from durable_adk.auth.auth_schemes import AuthScheme
from durable_adk.auth.oauth import with_consent_page, with_token
from tests.support.oauth import TokenProvider, token_provider

SECRET = "canary-2b"  # noqa: S105 - looked for where it must not be


@pytest.fixture
def provider() -> Iterator[TokenProvider]:
    """A provider that runs."""
    with token_provider() as server:
        yield server


def config(token_url: str = "https://p/token", **client: Any) -> AuthConfig:  # noqa: S107
    """A configuration of the code flow."""
    flow = {"authorizationUrl": "https://p/consent", "tokenUrl": token_url, "scopes": {"a": "b"}}
    scheme = {"type": "oauth2", "flows": {"authorizationCode": flow}}
    oauth2 = OAuth2Auth.model_validate({"client_id": "c d", "client_secret": SECRET} | client)
    return AuthConfig(
        auth_scheme=TypeAdapter(AuthScheme).validate_python(scheme),
        raw_auth_credential=AuthCredential(auth_type=AuthCredentialTypes.OAUTH2, oauth2=oauth2),
    )


def given(**oauth2: Any) -> AuthCredential:
    """What a client answers."""
    return AuthCredential(
        auth_type=AuthCredentialTypes.OAUTH2, oauth2=OAuth2Auth.model_validate(oauth2)
    )


def asked(configuration: AuthConfig, call: str = "i:c") -> dict[str, str]:
    """The query of the URL of the page."""
    credential = with_consent_page(configuration, call=call).exchanged_auth_credential
    assert credential
    assert credential.oauth2
    query = {k: v for k, [v] in parse_qs(urlsplit(credential.oauth2.auth_uri or "").query).items()}
    assert query["state"] == credential.oauth2.state
    return query


def test_the_state_is_the_calls_own_and_cannot_be_guessed() -> None:
    """Every attempt of a call asks with the same; with another call or secret it is another."""
    states = [asked(config())["state"], asked(config())["state"]]
    assert states[0] == states[1]
    assert asked(config(), "i:d")["state"] != states[0]
    assert asked(config(client_secret="other"))["state"] != states[0]  # noqa: S106
    public = config(client_secret=None)
    assert asked(public)["state"] != asked(public)["state"]


def test_a_verifier_is_sent_as_its_challenge() -> None:
    """RFC 7636's example."""
    verifier = "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk"
    query = asked(config(code_verifier=verifier))
    assert query["code_challenge"] == "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM"
    assert verifier not in str(query)


def test_a_page_that_is_given_stays() -> None:
    """Also that of the developer's own credential, which has ADK's place for it."""
    whole = with_consent_page(config(auth_uri="https://own"), call="c")
    assert whole.exchanged_auth_credential == whole.raw_auth_credential
    assert with_consent_page(whole, call="d") == whole


@pytest.mark.parametrize(
    "answer", [{"auth_code": "42"}, {"auth_response_uri": "https://b?code=42"}]
)
def test_the_code_is_exchanged_for_the_token(
    provider: TokenProvider, answer: dict[str, str]
) -> None:
    """As the tool's own client, whatever the answer says."""
    tool = config(provider.url, redirect_uri="https://b")
    credential = with_token(tool, given(client_id="forged", **answer))
    assert credential.oauth2
    assert (credential.oauth2.access_token, credential.oauth2.refresh_token) == ("t", "r")
    assert credential.oauth2.expires_in == 60
    assert credential.oauth2.client_secret == SECRET  # who refreshes it needs this, as in ADK
    form = {"grant_type": "authorization_code", "code": "42", "redirect_uri": "https://b"}
    assert provider.asked == [(form, f"Basic {b64encode(f'c+d:{SECRET}'.encode()).decode()}")]


def test_a_client_says_who_it_is_in_the_way_it_is_configured(provider: TokenProvider) -> None:
    """In the form, and without a secret by its id alone."""
    with_token(
        config(provider.url, token_endpoint_auth_method="client_secret_post"),  # noqa: S106
        given(auth_code="42"),
    )
    public = config(provider.url, client_secret=None, code_verifier="v")
    with_token(public, given(auth_code="42"))
    (first, _), (second, basic) = provider.asked
    assert (first["client_id"], first["client_secret"]) == ("c d", SECRET)
    assert (second["client_id"], second["code_verifier"], basic) == ("c d", "v", None)


@pytest.mark.parametrize("case", ["refused", "elsewhere", "away", "a file", "unsupported"])
def test_without_a_token_the_credential_is_what_was_given(
    provider: TokenProvider, case: str, caplog: pytest.LogCaptureFixture
) -> None:
    """The tool may ask again; the log says why, without secrets, and no redirect is followed."""
    provider.elsewhere = provider.url if case == "elsewhere" else None
    url = {"away": "http://127.0.0.1:9/token", "a file": __file__}.get(case, provider.url)
    method = "private_key_jwt" if case == "unsupported" else "client_secret_basic"
    tool = config(url, token_endpoint_auth_method=method)
    credential = with_token(tool, given(auth_code=f"{SECRET}-code"))
    assert credential.oauth2
    assert credential.oauth2.access_token is None
    assert "credential.no_token" in caplog.text
    assert SECRET not in caplog.text
    assert len(provider.asked) <= 1


def test_nothing_is_asked_without_a_code_or_with_a_token(provider: TokenProvider) -> None:
    """A client that has asked for the token itself answers with it."""
    tool = config(provider.url)
    assert with_token(tool, given()).oauth2.access_token is None
    assert with_token(tool, given(access_token="u", auth_code="42")).oauth2.access_token == "u"  # noqa: S105, S106
    assert provider.asked == []
