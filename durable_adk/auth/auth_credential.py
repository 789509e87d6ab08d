"""Credentials that tools authenticate with."""

from enum import StrEnum
from typing import Literal

from pydantic import Field

from durable_adk.auth._model import AuthModel

_ClientAuth = Literal[
    "client_secret_basic", "client_secret_post", "client_secret_jwt", "private_key_jwt"
]


class HttpCredentials(AuthModel):
    """Credentials for an Authorization header."""

    username: str | None = Field(default=None, repr=False)
    password: str | None = Field(default=None, repr=False)
    token: str | None = Field(default=None, repr=False)


class HttpAuth(AuthModel):
    """HTTP authentication, e.g. scheme ``basic`` or ``bearer``."""

    scheme: str
    credentials: HttpCredentials
    additional_headers: dict[str, str] | None = Field(default=None, repr=False)


class OAuth2Auth(AuthModel):
    """OAuth2 and OpenID Connect data: the client, the consent URL and the resulting tokens."""

    client_id: str | None = None
    client_secret: str | None = Field(default=None, repr=False)
    auth_uri: str | None = None
    """URL to which the user is sent for consent."""
    nonce: str | None = Field(default=None, repr=False)
    state: str | None = None
    """Value that the provider returns unchanged, to detect forged responses."""
    redirect_uri: str | None = None
    auth_response_uri: str | None = Field(default=None, repr=False)
    """URL to which the provider redirected the user; contains the authorization code."""
    auth_code: str | None = Field(default=None, repr=False)
    access_token: str | None = Field(default=None, repr=False)
    refresh_token: str | None = Field(default=None, repr=False)
    id_token: str | None = Field(default=None, repr=False)
    expires_at: int | None = None
    """Expiry of the access token, in seconds since the epoch."""
    expires_in: int | None = None
    """Lifetime of the access token, in seconds from its issue."""
    audience: str | None = None
    prompt: str | None = None
    code_verifier: str | None = Field(default=None, repr=False)
    code_challenge_method: str | None = None
    token_endpoint_auth_method: _ClientAuth | None = "client_secret_basic"  # noqa: S105 # a name


class ServiceAccountCredential(AuthModel):
    """A Google service account's key file."""

    type_: str = Field(default="", validation_alias="type", serialization_alias="type")
    project_id: str
    private_key_id: str = Field(repr=False)
    private_key: str = Field(repr=False)
    client_email: str
    client_id: str
    auth_uri: str
    token_uri: str
    auth_provider_x509_cert_url: str
    client_x509_cert_url: str
    universe_domain: str


class ServiceAccount(AuthModel):
    """A Google service account and how to use it."""

    service_account_credential: ServiceAccountCredential | None = Field(default=None, repr=False)
    scopes: list[str] | None = None
    use_default_credential: bool | None = False
    use_id_token: bool | None = False
    audience: str | None = None


class AuthCredentialTypes(StrEnum):
    """The type of a credential, which determines the field that holds it."""

    API_KEY = "apiKey"
    HTTP = "http"
    OAUTH2 = "oauth2"
    OPEN_ID_CONNECT = "openIdConnect"
    SERVICE_ACCOUNT = "serviceAccount"


class AuthCredential(AuthModel):
    """A credential of any type; the data of OPEN_ID_CONNECT are in `oauth2` as well."""

    auth_type: AuthCredentialTypes
    resource_ref: str | None = None
    """The owner's name for a credential that is stored elsewhere."""
    api_key: str | None = Field(default=None, repr=False)
    http: HttpAuth | None = None
    service_account: ServiceAccount | None = None
    oauth2: OAuth2Auth | None = None
