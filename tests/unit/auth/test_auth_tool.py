"""AuthConfig: schemes are read as what they are, and each has a stable key."""

import pytest
from pydantic import BaseModel, Field, ValidationError

from durable_adk.auth import AuthConfig, AuthCredential, AuthToolArguments, OAuth2Auth, auth_schemes
from durable_adk.auth.auth_schemes import CustomAuthScheme, OAuth2, OAuthFlows

CODE = {"authorizationUrl": "https://a", "tokenUrl": "https://t", "scopes": {"r": "read"}}
SCHEMES = [
    ("APIKey", {"type": "apiKey", "in": "header", "name": "X-Key"}),
    ("HTTPBearer", {"type": "http", "scheme": "bearer", "bearerFormat": "JWT"}),
    ("HTTPBase", {"type": "http", "scheme": "basic"}),
    ("OAuth2", {"type": "oauth2", "flows": {"authorizationCode": CODE}}),
    ("ExtendedOAuth2", {"type": "oauth2", "flows": {}, "issuer_url": "https://i"}),
    ("OpenIdConnect", {"type": "openIdConnect", "openIdConnectUrl": "https://o"}),
    (
        "OpenIdConnectWithConfig",
        {"type": "openIdConnect", "authorization_endpoint": "a", "token_endpoint": "t"},
    ),
    ("CustomAuthScheme", {"type": "ours", "place": "here"}),
]


def oauth2(**fields: str) -> AuthConfig:
    """A configuration for OAuth2."""
    credential = AuthCredential(auth_type="oauth2", oauth2=OAuth2Auth(**fields))
    return AuthConfig(auth_scheme=OAuth2(flows=OAuthFlows()), raw_auth_credential=credential)


@pytest.mark.parametrize(("name", "data"), SCHEMES)
def test_json_is_read_as_its_scheme_and_written_unchanged(name, data):
    """OpenAPI's and ADK's JSON of each scheme goes through the class of that name and back."""
    config = AuthConfig.model_validate({"authScheme": data})
    assert type(config.auth_scheme) is getattr(auth_schemes, name)
    assert config.model_dump(mode="json", by_alias=True, exclude_none=True)["authScheme"] == data
    assert AuthConfig.from_json(config.to_json()) == config


@pytest.mark.parametrize("bad", [{"type": "apiKey"}, {"flows": {}}, {}, None, 3, "oauth2"])
def test_what_is_no_scheme_is_refused(bad):
    """A scheme that lacks something is a validation error, not some other scheme."""
    with pytest.raises(ValidationError):
        AuthConfig.model_validate({"authScheme": bad})


def test_a_model_of_another_package_is_accepted():
    """FastAPI's models, which ADK's users have, write the same JSON."""

    class Foreign(BaseModel):
        type_: str = Field(default="apiKey", serialization_alias="type")
        in_: str = Field(default="query", serialization_alias="in")
        name: str = "key"

    assert AuthConfig(auth_scheme=Foreign()).auth_scheme == auth_schemes.APIKey(
        in_=auth_schemes.APIKeyIn.query, name="key"
    )


def test_a_scheme_of_ones_own_keeps_its_fields():
    """The fields of a subclass are written."""

    class Mine(CustomAuthScheme):
        type_: str = "mine"
        my_place: str

    assert '"authScheme":{"type":"mine","myPlace":"p"}' in (
        AuthConfig(auth_scheme=Mine(my_place="p")).to_json()
    )


def test_the_key_is_stable():
    """Secrets and what differs between consents do not change where a credential is stored."""
    key = oauth2(client_id="c").key
    assert key.startswith("adk_oauth2_")
    changed = {"client_secret": "s", "state": "x", "auth_uri": "u", "redirect_uri": "r"}
    assert key == oauth2(client_id="c", **changed).key


def test_the_key_tells_clients_and_schemes_apart():
    """A credential is never handed to another client or scheme; a key that is set stays."""
    keys = {AuthConfig.model_validate({"authScheme": data}).key for _, data in SCHEMES}
    assert len(keys | {oauth2(client_id="a").key, oauth2(client_id="b").key}) == len(SCHEMES) + 2
    named = AuthConfig.model_validate({"authScheme": SCHEMES[0][1], "credentialKey": "mine"})
    assert named.key == "mine"


def test_arguments_are_adks():
    """The call of adk_request_credential is written with ADK's keys."""
    arguments = AuthToolArguments(function_call_id="f", auth_config=oauth2(client_id="c"))
    dumped = arguments.model_dump(mode="json", by_alias=True, exclude_none=True)
    assert set(dumped) == {"functionCallId", "authConfig"}
    assert set(dumped["authConfig"]) == {"authScheme", "rawAuthCredential", "credentialKey"}
