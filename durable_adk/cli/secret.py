"""A credential, from what a user types or pipes in."""

import json
from typing import Any, cast

from pydantic import ValidationError

from durable_adk.auth.auth_credential import (
    AuthCredential,
    AuthCredentialTypes,
    HttpAuth,
    HttpCredentials,
    OAuth2Auth,
    ServiceAccount,
    ServiceAccountCredential,
)
from durable_adk.auth.auth_tool import AuthConfig
from durable_adk.conversation.pending_calls import PendingCall
from durable_adk.errors import InvalidRequestError

# No error here says what was typed, nor has a cause that knows it: it is a secret.

_WORDS = {
    AuthCredentialTypes.API_KEY: "API key",
    AuthCredentialTypes.HTTP: "Token, or user:password for basic authentication",
    AuthCredentialTypes.OAUTH2: "URL you were sent back to, or access token",
    AuthCredentialTypes.OPEN_ID_CONNECT: "URL you were sent back to, or access token",
    AuthCredentialTypes.SERVICE_ACCOUNT: "Key file of the service account, on one line",
}


def asked_config(call: PendingCall) -> AuthConfig:
    """The configuration that a credential request asks with; it holds no secret."""
    return AuthConfig.model_validate(call.args.get("authConfig"))


def prompt_for(asked: AuthConfig, tool: str) -> str:
    """What a person is asked for."""
    kind = _kind(asked)
    words = _WORDS[kind] if kind else "AuthCredential as JSON"
    return f"{words}, for {tool} (it is not shown): "


def answer_with(asked: AuthConfig, text: str) -> dict[str, Any]:
    """The answer to a credential request, which holds the secret.

    Args:
        asked: What was asked for; whatever it is, an AuthCredential as JSON answers it.
        text: What was typed.

    Raises:
        InvalidRequestError: It is empty, or not of the kind that was asked for.
    """
    if not (text := text.strip()):
        raise InvalidRequestError("No credential was given; nothing was sent.")
    given = asked.model_copy(update={"exchanged_auth_credential": _credential(asked, text)})
    return given.model_dump(mode="json", by_alias=True, exclude_none=True)


def _kind(asked: AuthConfig) -> AuthCredentialTypes | None:
    if asked.raw_auth_credential is not None:
        return asked.raw_auth_credential.auth_type
    known = {str(kind): kind for kind in AuthCredentialTypes}
    return known.get(str(asked.auth_scheme.type_))


def _credential(asked: AuthConfig, text: str) -> AuthCredential:
    data = _json_object(text)
    kind = _kind(asked)
    try:
        if data is not None and {"authType", "auth_type"} & set(data):
            return AuthCredential.model_validate(data)
        match kind:
            case AuthCredentialTypes.API_KEY:
                return AuthCredential(auth_type=kind, api_key=text)
            case AuthCredentialTypes.HTTP:
                return AuthCredential(auth_type=kind, http=_http(asked, text))
            case AuthCredentialTypes.OAUTH2 | AuthCredentialTypes.OPEN_ID_CONNECT:
                return AuthCredential(auth_type=kind, oauth2=_oauth2(asked, text))
            case AuthCredentialTypes.SERVICE_ACCOUNT:
                key = ServiceAccountCredential.model_validate(data)
                account = ServiceAccount(service_account_credential=key)
                return AuthCredential(auth_type=kind, service_account=account)
            case None:
                pass
    except ValidationError:
        pass
    what = kind.value if kind else "AuthCredential, as JSON"
    raise InvalidRequestError(f"What was given is no credential of the kind {what}.") from None


def _json_object(text: str) -> dict[str, Any] | None:
    try:
        data = json.loads(text)
    except ValueError:
        return None
    return cast("dict[str, Any]", data) if isinstance(data, dict) else None


def _http(asked: AuthConfig, text: str) -> HttpAuth:
    raw = asked.raw_auth_credential and asked.raw_auth_credential.http
    scheme = raw.scheme if raw else str(getattr(asked.auth_scheme, "scheme", "bearer"))
    if scheme.lower() != "basic":
        return HttpAuth(scheme=scheme, credentials=HttpCredentials(token=text))
    user, colon, password = text.partition(":")
    if not colon:
        raise InvalidRequestError("Basic authentication takes user:password.")
    return HttpAuth(scheme=scheme, credentials=HttpCredentials(username=user, password=password))


def _oauth2(asked: AuthConfig, text: str) -> OAuth2Auth:
    """The consent that was asked for, with what came of it."""
    sent = asked.exchanged_auth_credential or asked.raw_auth_credential
    consent = (sent and sent.oauth2) or OAuth2Auth()
    came_back = text.startswith(("http://", "https://"))
    name = "auth_response_uri" if came_back else "access_token"
    return consent.model_copy(update={name: text})
