"""Responses to pending calls, from what a user types."""

import json
from collections.abc import Awaitable, Callable
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
from durable_adk.cli.pending import auth_config
from durable_adk.cli.terminal import read_secret
from durable_adk.conversation.pending_calls import PendingCall
from durable_adk.errors import InvalidRequestError

Response = Callable[[PendingCall], Awaitable[dict[str, Any]]]
"""Creates the response to a call."""

_COMMANDS = {
    "confirmation": "approve` or `durable-adk reject",
    "credential": "credential",
    "long_running": "respond",
}
_PROMPTS = {
    AuthCredentialTypes.API_KEY: "API key",
    AuthCredentialTypes.HTTP: "Token, or user:password for basic authentication",
    AuthCredentialTypes.OAUTH2: "URL that you were redirected to, or access token",
    AuthCredentialTypes.OPEN_ID_CONNECT: "URL that you were redirected to, or access token",
    AuthCredentialTypes.SERVICE_ACCOUNT: "Key file of the service account, on one line",
}


def approval(payload: str | None) -> Response:
    """Return a response that approves a call.

    Args:
        payload: JSON: the values that the tool requests.
    """

    async def response(_: PendingCall) -> dict[str, Any]:
        filled = {} if payload is None else {"payload": _parsed(payload, "The payload")}
        return {"confirmed": True, **filled}

    return response


async def rejection(_: PendingCall) -> dict[str, Any]:
    """Return the response that rejects a call."""
    return {"confirmed": False}


def outcome(result: str) -> Response:
    """Return a response with the result of a long-running call, a JSON object."""

    async def response(_: PendingCall) -> dict[str, Any]:
        value = _parsed(result, "The result")
        if not isinstance(value, dict):
            raise InvalidRequestError(
                'The result must be a JSON object, such as {"result": "done"}.'
            )
        return cast("dict[str, Any]", value)

    return response


async def prompt_for_credential(call: PendingCall) -> dict[str, Any]:
    """Ask the user for the credential that a call requests."""
    config = auth_config(call)
    text = await read_secret(credential_prompt(config, call.original_name))
    return credential_response(config, text)


def require_kind(call: PendingCall, kind: str) -> None:
    """Check that an answer is of the kind that the call requests.

    Raises:
        InvalidRequestError: The call needs another command.
    """
    if call.kind != kind:
        raise InvalidRequestError(
            f"Answer call {call.call_id!r} with `durable-adk {_COMMANDS[call.kind]}`."
        )


def _parsed(text: str, what: str) -> Any:
    try:
        return json.loads(text)
    except ValueError as error:
        raise InvalidRequestError(f"{what} is not valid JSON: {error}") from None


# The input is a secret: no error below quotes it, or has a cause that does (TRAP-48).


def credential_prompt(requested: AuthConfig, tool: str) -> str:
    """Return the prompt for a credential of the requested kind."""
    kind = _kind(requested)
    words = _PROMPTS[kind] if kind else "AuthCredential as JSON"
    return f"{words}, for {tool} (not shown): "


def credential_response(requested: AuthConfig, text: str) -> dict[str, Any]:
    """Return the response to a credential request; it contains the secret.

    Args:
        requested: The requested configuration; any kind accepts an AuthCredential in JSON.
        text: The user's input.

    Raises:
        InvalidRequestError: The text is empty, or not a credential of the requested kind.
    """
    if not (text := text.strip()):
        raise InvalidRequestError("No credential was given; nothing was sent.")
    provided = requested.model_copy(
        update={"exchanged_auth_credential": _credential(requested, text)}
    )
    return provided.model_dump(mode="json", by_alias=True, exclude_none=True)


def _kind(requested: AuthConfig) -> AuthCredentialTypes | None:
    if requested.raw_auth_credential is not None:
        return requested.raw_auth_credential.auth_type
    known = {str(kind): kind for kind in AuthCredentialTypes}
    return known.get(str(requested.auth_scheme.type_))


def _credential(requested: AuthConfig, text: str) -> AuthCredential:
    data = _json_object(text)
    kind = _kind(requested)
    try:
        if data is not None and {"authType", "auth_type"} & set(data):
            return AuthCredential.model_validate(data)
        match kind:
            case AuthCredentialTypes.API_KEY:
                return AuthCredential(auth_type=kind, api_key=text)
            case AuthCredentialTypes.HTTP:
                return AuthCredential(auth_type=kind, http=_http(requested, text))
            case AuthCredentialTypes.OAUTH2 | AuthCredentialTypes.OPEN_ID_CONNECT:
                return AuthCredential(auth_type=kind, oauth2=_oauth2(requested, text))
            case AuthCredentialTypes.SERVICE_ACCOUNT:
                key = ServiceAccountCredential.model_validate(data)
                account = ServiceAccount(service_account_credential=key)
                return AuthCredential(auth_type=kind, service_account=account)
            case None:
                pass
    except ValidationError:
        pass
    what = kind.value if kind else "AuthCredential (JSON)"
    raise InvalidRequestError(f"The text is not a credential of the kind {what}.") from None


def _json_object(text: str) -> dict[str, Any] | None:
    try:
        data = json.loads(text)
    except ValueError:
        return None
    return cast("dict[str, Any]", data) if isinstance(data, dict) else None


def _http(requested: AuthConfig, text: str) -> HttpAuth:
    raw = requested.raw_auth_credential and requested.raw_auth_credential.http
    scheme = raw.scheme if raw else str(getattr(requested.auth_scheme, "scheme", "bearer"))
    if scheme.lower() != "basic":
        return HttpAuth(scheme=scheme, credentials=HttpCredentials(token=text))
    user, colon, password = text.partition(":")
    if not colon:
        raise InvalidRequestError("For basic authentication type user:password.")
    return HttpAuth(scheme=scheme, credentials=HttpCredentials(username=user, password=password))


def _oauth2(requested: AuthConfig, text: str) -> OAuth2Auth:
    """Return the requested authorization, with the redirect URL or the access token."""
    sent = requested.exchanged_auth_credential or requested.raw_auth_credential
    consent = (sent and sent.oauth2) or OAuth2Auth()
    redirected = text.startswith(("http://", "https://"))
    name = "auth_response_uri" if redirected else "access_token"
    return consent.model_copy(update={name: text})
