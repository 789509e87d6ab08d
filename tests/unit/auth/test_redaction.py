"""No secret leaves: not in JSON that is meant to leave, not in a repr, an error or a log."""

import logging
from io import StringIO

import pytest
from hypothesis import given, strategies as st
from pydantic import BaseModel, ValidationError

from durable_adk.auth import (
    AuthConfig,
    AuthCredential,
    HttpAuth,
    HttpCredentials,
    OAuth2Auth,
    ServiceAccount,
    ServiceAccountCredential,
    without_secrets,
)
from durable_adk.auth._model import AuthModel
from durable_adk.auth.auth_schemes import APIKey, APIKeyIn

CANARY = "canary-7f3a91"
SCHEME = APIKey(in_=APIKeyIn.header, name="X-Key")
SHOWN = {"client_id": "the-client", "auth_uri": "https://consent", "state": "the-state"}


def filled(model: type[BaseModel], **shown: str) -> dict[str, str]:
    """A canary in every text field, but for those that are meant to be seen."""
    names = (n for n, f in model.model_fields.items() if "str" in str(f.annotation))
    return {**dict.fromkeys(names, CANARY), "undeclared": CANARY, **shown}


def everything() -> AuthCredential:
    """A credential with secrets in all its fields."""
    open_fields = {
        "redirect_uri": "https://back",
        "audience": "a",
        "prompt": "p",
        "code_challenge_method": "S256",
        "token_endpoint_auth_method": "client_secret_post",
    }
    account = ServiceAccountCredential(**filled(ServiceAccountCredential))
    return AuthCredential(
        auth_type="oauth2",
        api_key=CANARY,
        undeclared=CANARY,
        http=HttpAuth(
            scheme="basic",
            credentials=HttpCredentials(**filled(HttpCredentials)),
            additional_headers={"Authorization": CANARY, CANARY: "x"},
        ),
        oauth2=OAuth2Auth(**filled(OAuth2Auth, **SHOWN, **open_fields)),
        service_account=ServiceAccount(service_account_credential=account, scopes=["read"]),
    )


def config() -> AuthConfig:
    """A configuration with secrets wherever one can be."""
    return AuthConfig(
        auth_scheme=SCHEME,
        raw_auth_credential=everything(),
        exchanged_auth_credential=everything(),
        undeclared=CANARY,
    )


def test_the_canary_is_there_to_be_found():
    """The store's JSON holds all values, undeclared fields too; so the tests below can fail."""
    assert config().to_json().count(CANARY) > 20
    assert AuthConfig.from_json(config().to_json()) == config()


def test_what_leaves_holds_no_secret():
    """TOL-55, TRAP-48: of a redacted configuration neither JSON nor any field has the canary."""
    public = without_secrets(config())
    assert CANARY not in public.to_json()
    assert CANARY not in str(public.model_dump())
    assert CANARY not in str(public.__dict__)


def test_what_is_needed_to_consent_stays():
    """The client still learns where to send the user, for which client and scopes (TOL-50)."""
    public = without_secrets(config())
    credential = public.exchanged_auth_credential
    assert credential.oauth2.model_dump(include=set(SHOWN)) == SHOWN
    assert credential.service_account.scopes == ["read"]
    assert public.auth_scheme == SCHEME
    assert public.credential_key == config().credential_key


def test_redaction_is_stable_and_readable():
    """Applied again it changes nothing, and the result survives the wire."""
    public = without_secrets(config())
    assert without_secrets(public) == public
    assert AuthConfig.from_json(public.to_json()) == public


@pytest.mark.parametrize("value", [config(), everything(), everything().oauth2])
def test_a_repr_and_a_log_hold_no_secret(value):
    """However a credential gets into a log line, it tells no secret (S14)."""
    stream = StringIO()
    logger = logging.getLogger("tests.credentials")
    logger.setLevel(logging.WARNING)  # whatever the root's is by now
    handler = logging.StreamHandler(stream)
    logger.addHandler(handler)
    logger.warning("%s %r %s", value, value, [value])
    logger.removeHandler(handler)
    assert "the-client" in stream.getvalue()
    assert CANARY not in stream.getvalue() + f"{value}" + repr({"nested": value})


@pytest.mark.parametrize(
    "data",
    [
        {"auth_type": CANARY, "api_key": CANARY},
        {"auth_type": "apiKey", "api_key": [CANARY]},
        {"auth_type": "oauth2", "oauth2": {"client_secret": {CANARY: 1}}},
        {"auth_type": "oauth2", "oauth2": CANARY},
    ],
)
def test_a_validation_error_holds_no_input(data):
    """What does not fit is named by its place, not shown."""
    for model, value in ((AuthCredential, data), (AuthConfig, {"raw_auth_credential": data})):
        with pytest.raises(ValidationError) as caught:
            model.model_validate(value)
        assert CANARY not in str(caught.value)


@given(st.dictionaries(st.text(min_size=1), st.text(), max_size=4))
def test_what_is_not_declared_never_leaves(extra):
    """Whatever a provider adds is kept for the tool and removed from what leaves."""

    class Mine(AuthModel):
        known: str = "k"

    value = Mine.model_validate({"known": "k", **{f"x{key}": text for key, text in extra.items()}})
    assert value.model_extra == {f"x{key}": text for key, text in extra.items()}
    assert without_secrets(value).model_dump() == {"known": "k"}
