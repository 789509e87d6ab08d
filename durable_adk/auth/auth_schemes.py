"""The authentication methods of an API, as OpenAPI security schemes.

Models of other packages that serialize to the same JSON, such as FastAPI's, are accepted too.
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
    """The scheme types defined by OpenAPI."""

    apiKey = "apiKey"
    http = "http"
    oauth2 = "oauth2"
    openIdConnect = "openIdConnect"


AuthSchemeType = SecuritySchemeType
"""ADK's name for `SecuritySchemeType`."""


class APIKeyIn(StrEnum):
    """Where a request carries an API key."""

    query = "query"
    header = "header"
    cookie = "cookie"


def _plain(name: str) -> str:
    return name.rstrip("_")  # `type` and `in` are a Python builtin and a keyword


class _Described(AuthModel):
    model_config = ConfigDict(alias_generator=_plain)


class SecurityBase(_Described):
    """Fields common to all OpenAPI schemes."""

    type_: SecuritySchemeType
    description: str | None = None


class APIKey(SecurityBase):
    """A key in a header, a query parameter or a cookie of the given name."""

    type_: SecuritySchemeType = SecuritySchemeType.apiKey
    in_: APIKeyIn
    name: str


class HTTPBase(SecurityBase):
    """An Authorization header with the given scheme, e.g. ``basic``."""

    type_: SecuritySchemeType = SecuritySchemeType.http
    scheme: str


class HTTPBearer(HTTPBase):
    """An Authorization header with a bearer token."""

    scheme: str = "bearer"
    bearerFormat: str | None = None


class OAuthFlow(_Described):
    """Fields common to all OAuth2 flows."""

    refreshUrl: str | None = None
    scopes: dict[str, str] = Field(default_factory=dict[str, str])


class OAuthFlowImplicit(OAuthFlow):
    """The consent page returns the token directly."""

    authorizationUrl: str


class OAuthFlowPassword(OAuthFlow):
    """The user's password is exchanged for a token."""

    tokenUrl: str


class OAuthFlowClientCredentials(OAuthFlow):
    """The client acts on its own behalf, without a user."""

    tokenUrl: str


class OAuthFlowAuthorizationCode(OAuthFlow):
    """The consent page returns a code, which is exchanged for a token."""

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
    """OAuth2 with endpoints discovered from its issuer."""

    issuer_url: str | None = None


class OpenIdConnect(SecurityBase):
    """OpenID Connect with endpoints discovered from a URL."""

    type_: SecuritySchemeType = SecuritySchemeType.openIdConnect
    openIdConnectUrl: str


class OpenIdConnectWithConfig(SecurityBase):
    """OpenID Connect with explicit endpoints."""

    type_: SecuritySchemeType = SecuritySchemeType.openIdConnect
    authorization_endpoint: str
    token_endpoint: str
    userinfo_endpoint: str | None = None
    revocation_endpoint: str | None = None
    token_endpoint_auth_methods_supported: list[str] | None = None
    grant_types_supported: list[str] | None = None
    scopes: list[str] | None = None


class CustomAuthScheme(_Described):
    """A custom scheme, with a type that OpenAPI does not define."""

    model_config = ConfigDict(alias_generator=lambda name: to_camel(_plain(name)))

    type_: str


class OAuthGrantType(StrEnum):
    """The OAuth2 grant that is exchanged for a token."""

    CLIENT_CREDENTIALS = "client_credentials"
    AUTHORIZATION_CODE = "authorization_code"
    IMPLICIT = "implicit"
    PASSWORD = "password"  # noqa: S105 # the name of a grant


_Kind = Literal["apiKey", "http", "bearer", "oauth2", "issuer", "openId", "openIdUrl", "custom"]


def _kind(value: Any) -> _Kind:
    """Determine the scheme class, so that validation errors name that class's missing fields."""
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
    """Convert third-party models to JSON data; return {} for other types than model or dict."""
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
"""Any scheme; JSON is parsed as the class selected by its `type` and fields."""
