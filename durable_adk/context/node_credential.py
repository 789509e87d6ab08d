"""Asks a person for the credential that a node needs (GR-52)."""

import time

from google.genai import types

from durable_adk.auth.auth_credential import AuthCredentialTypes, OAuth2Auth
from durable_adk.auth.auth_tool import REQUEST_CREDENTIAL, AuthConfig, AuthToolArguments
from durable_adk.auth.oauth import with_consent_page
from durable_adk.auth.redaction import without_secrets
from durable_adk.calling import call
from durable_adk.context.activity import Context
from durable_adk.events.event import Event

_PREFIX = "wf_auth:"


async def load_credential(ctx: Context, config: AuthConfig) -> bool:
    """Make the user's credential available to `Context.get_auth_response`.

    An OAuth2 code is exchanged for a token, which is stored before the node's code runs: a code can
    be used only once.

    Args:
        ctx: The node's context.
        config: What the node needs.

    Returns:
        Whether there is one. A stored code that gave no token, or a token that has expired, counts
        only if it is the answer to this run's own request.

    Raises:
        InvalidRequestError: The runner has no `credential_service`.
    """
    found = await ctx.load_credential(config)
    if found is None:
        return False
    ctx.provided_credentials[config.key] = found
    usable = await call(ctx.get_auth_response, config)
    for exchanged in ctx.exchanged_credentials:
        await ctx.save_credential(exchanged)
    ctx.exchanged_credentials.clear()
    token = usable and usable.oauth2
    lacks_token = token and (not token.access_token or _has_expired(token))
    return not lacks_token or _request_id(ctx) in ctx.resume_inputs


def credential_request(ctx: Context, config: AuthConfig) -> Event:
    """Return the event that asks for a credential; it contains no secret (TOL-55)."""
    name = _request_id(ctx)
    asked = without_secrets(with_consent_page(config, call=ctx.idempotency_key))
    args = AuthToolArguments(function_call_id=name, auth_config=asked).model_dump(
        mode="json", by_alias=True, exclude_none=True
    )
    args["message"] = _message(config)
    requested = types.FunctionCall(name=REQUEST_CREDENTIAL, id=name, args=args)
    return Event(
        content=types.Content(role="model", parts=[types.Part(function_call=requested)]),
        long_running_tool_ids={name},
    )


def _has_expired(token: OAuth2Auth) -> bool:
    return token.expires_at is not None and token.expires_at <= time.time()


def _request_id(ctx: Context) -> str:
    return f"{_PREFIX}{ctx.node_path}"


def _message(config: AuthConfig) -> str:
    raw = config.raw_auth_credential
    match raw and raw.auth_type:
        case AuthCredentialTypes.API_KEY:
            name = getattr(config.auth_scheme, "name", "API key")
            return f"Please provide your API key for {name}."
        case AuthCredentialTypes.OAUTH2 | AuthCredentialTypes.OPEN_ID_CONNECT:
            return "Please complete the authentication flow."
        case _:
            return "Please provide your authentication credentials."
