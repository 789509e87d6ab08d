"""How an API wants to be authenticated to: OpenAPI's security schemes.

Models of other packages that write the same JSON, such as FastAPI's, are accepted in their place.
"""
# ruff: noqa: N815 # OpenAPI's own names

from enum import StrEnum
from typing import Annotated, Any, Literal, cast

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    SerializeAsAny,
    Tag,
)
from pydantic.alias_generators import to_camel

from durable_adk.auth._model import AuthModel


class SecuritySchemeType(StrEnum):
    """The kinds of schemes that OpenAPI knows."""

    apiKey = "apiKey"
    http = "http"
    oauth2 = "oauth2"
    openIdConnect = "openIdConnect"


AuthSchemeType = SecuritySchemeType
"""ADK's name."""


class APIKeyIn(StrEnum):
    """Where a request carries an API key."""

    query = "query"
    header = "header"
    cookie = "cookie"


def _plain(name: str) -> str:
    return name.rstrip("_")  # `type_` and `in_` are Python's or its keywords


class _Described(AuthModel):
    model_config = ConfigDict(alias_generator=_plain)


class SecurityBase(_Described):
    """What all schemes of OpenAPI have."""

    type_: SecuritySchemeType
    description: str | None = None


class APIKey(SecurityBase):
    """A key in a header, a query parameter or a cookie of the given name."""

    type_: SecuritySchemeType = SecuritySchemeType.apiKey
    in_: APIKeyIn
    name: str


class HTTPBase(SecurityBase):
    """An Authorization header of some scheme, e.g. ``basic``."""

    type_: SecuritySchemeType = SecuritySchemeType.http
    scheme: str


class HTTPBearer(HTTPBase):
    """An Authorization header with a bearer token."""

    scheme: str = "bearer"
    bearerFormat: str | None = None


class OAuthFlow(_Described):
    """What all flows of OAuth2 have."""

    refreshUrl: str | None = None
    scopes: dict[str, str] = Field(default_factory=dict[str, str])


class OAuthFlowImplicit(OAuthFlow):
    """The token comes straight from the page where the user consents."""

    authorizationUrl: str


class OAuthFlowPassword(OAuthFlow):
    """The user's password is exchanged for a token."""

    tokenUrl: str


class OAuthFlowClientCredentials(OAuthFlow):
    """The client acts for itself, without a user."""

    tokenUrl: str


class OAuthFlowAuthorizationCode(OAuthFlow):
    """The page where the user consents gives a code, which is exchanged for a token."""

    authorizationUrl: str
    tokenUrl: str


class OAuthFlows(_Described):
    """The flows an API supports."""

    implicit: OAuthFlowImplicit | None = None
    password: OAuthFlowPassword | None = None
    clientCredentials: OAuthFlowClientCredentials | None = None
    authorizationCode: OAuthFlowAuthorizationCode | None = None


class OAuth2(SecurityBase):
    """OAuth2 with its flows."""

    type_: SecuritySchemeType = SecuritySchemeType.oauth2
    flows: OAuthFlows


class ExtendedOAuth2(OAuth2):
    """OAuth2 whose endpoints are found at its issuer."""

    issuer_url: str | None = None


class OpenIdConnect(SecurityBase):
    """OpenID Connect whose endpoints are found at a URL."""

    type_: SecuritySchemeType = SecuritySchemeType.openIdConnect
    openIdConnectUrl: str


class OpenIdConnectWithConfig(SecurityBase):
    """OpenID Connect with its endpoints."""

    type_: SecuritySchemeType = SecuritySchemeType.openIdConnect
    authorization_endpoint: str
    token_endpoint: str
    userinfo_endpoint: str | None = None
    revocation_endpoint: str | None = None
    token_endpoint_auth_methods_supported: list[str] | None = None
    grant_types_supported: list[str] | None = None
    scopes: list[str] | None = None


class CustomAuthScheme(_Described):
    """A scheme of one's own; its type is none of OpenAPI's."""

    model_config = ConfigDict(alias_generator=lambda name: to_camel(_plain(name)))

    type_: str


class OAuthGrantType(StrEnum):
    """What is exchanged for a token."""

    CLIENT_CREDENTIALS = "client_credentials"
    AUTHORIZATION_CODE = "authorization_code"
    IMPLICIT = "implicit"
    PASSWORD = "password"  # noqa: S105 # the name of a grant


_Kind = Literal["apiKey", "http", "bearer", "oauth2", "issuer", "openId", "openIdUrl", "custom"]


def _kind(value: Any) -> _Kind:
    """Which scheme a value is, so that one that does not fit is told what it lacks."""
    data: dict[str, Any] = (
        value.model_dump(by_alias=True) if isinstance(value, BaseModel) else value
    )
    match data.get("type", data.get("type_")):
        case "apiKey":
            return "apiKey"
        case "http":
            return "bearer" if data.get("scheme") == "bearer" else "http"
        case "oauth2":
            return "issuer" if "issuer_url" in data else "oauth2"
        case "openIdConnect":
            return "openIdUrl" if "openIdConnectUrl" in data else "openId"
        case _:
            return "custom"


def _as_data(value: Any) -> Any:
    """A foreign model as the JSON it writes; whatever is neither model nor object as nothing."""
    if isinstance(value, BaseModel) and not isinstance(value, _Described):
        return value.model_dump(mode="json", by_alias=True, exclude_none=True)
    return cast("Any", value) if isinstance(value, (BaseModel, dict)) else {}


AuthScheme = Annotated[
    SerializeAsAny[
        Annotated[
            Annotated[APIKey, Tag("apiKey")]
            | Annotated[HTTPBearer, Tag("bearer")]
            | Annotated[HTTPBase, Tag("http")]
            | Annotated[ExtendedOAuth2, Tag("issuer")]
            | Annotated[OAuth2, Tag("oauth2")]
            | Annotated[OpenIdConnect, Tag("openIdUrl")]
            | Annotated[OpenIdConnectWithConfig, Tag("openId")]
            | Annotated[CustomAuthScheme, Tag("custom")],
            Discriminator(_kind),
        ]
    ],
    BeforeValidator(_as_data),
]
"""Any scheme; JSON is read as the class that its `type` and its fields say."""
