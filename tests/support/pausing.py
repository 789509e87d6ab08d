"""Histories in which calls wait for an answer, built as the loop commits them."""

from typing import Any

from google.genai import types

from durable_adk.auth import AuthConfig, AuthCredential, OAuth2Auth
from durable_adk.auth.auth_schemes import OAuth2, OAuthFlows
from durable_adk.auth.auth_tool import REQUEST_CREDENTIAL
from durable_adk.conversation.client_requests import (
    REQUEST_CONFIRMATION,
    confirmation_request,
    credential_request,
)
from durable_adk.events import Event, EventActions

CANARY = "canary-7f3a91"


def calls(event_id: str, *made: tuple[str, str, dict[str, Any]], long: tuple[str, ...] = ()):
    """An agent's event with calls (id, name, args)."""
    parts = [
        types.Part(function_call=types.FunctionCall(id=id, name=name, args=args))
        for id, name, args in made  # noqa: A001 # the calls' own word
    ]
    return Event(
        id=event_id,
        invocation_id=event_id.partition(".")[0],
        author="agent",
        branch="root.agent",
        timestamp=7.0,
        content=types.Content(role="model", parts=parts),
        long_running_tool_ids=set(long) or None,
    )


def answer(call_id: str | None, name: str | None, response: Any) -> types.Part:
    """A part that answers a call."""
    return types.Part(
        function_response=types.FunctionResponse(id=call_id, name=name, response=response)
    )


def message(*parts: types.Part) -> types.Content:
    """A user's message."""
    return types.Content(role="user", parts=list(parts))


def responses(event_id: str, *parts: types.Part, author: str = "agent", **fields: Any) -> Event:
    """An event with responses, an agent's or the user's."""
    return Event(
        id=event_id,
        invocation_id=event_id.partition(".")[0],
        author=author,
        branch="root.agent",
        content=message(*parts),
        **fields,
    )


def auth_config() -> AuthConfig:
    """A configuration with secrets, and a consent page that has a state."""
    client = {"client_id": "c", "client_secret": CANARY, "other": CANARY}
    consent = OAuth2Auth(**client, auth_uri="https://consent?state=st", state="st")
    return AuthConfig(
        auth_scheme=OAuth2(flows=OAuthFlows()),
        raw_auth_credential=AuthCredential(auth_type="oauth2", oauth2=OAuth2Auth(**client)),
        exchanged_auth_credential=AuthCredential(auth_type="oauth2", oauth2=consent),
    )


def confirming(inv: str = "i") -> list[Event]:
    """A turn whose call `pay` is to be confirmed."""
    turn = calls(f"{inv}.1", (f"{inv}-pay", "pay", {"amount": 5}), (f"{inv}-look", "look", {}))
    done = responses(
        f"{inv}.2",
        answer(f"{inv}-pay", "pay", {"error": "asked"}),
        answer(f"{inv}-look", "look", {"seen": 1}),
        actions=EventActions(requested_tool_confirmations={f"{inv}-pay": {"hint": "Really?"}}),
    )
    request = confirmation_request(turn, done, event_id=f"{inv}.3")
    assert request
    return [turn, done, request]


def authenticating(inv: str = "i") -> list[Event]:
    """A turn whose call `mail` needs a credential."""
    turn = calls(f"{inv}.1", (f"{inv}-mail", "mail", {}))
    actions = EventActions(requested_auth_configs={f"{inv}-mail": auth_config()})
    done = responses(f"{inv}.2", answer(f"{inv}-mail", "mail", {"result": None}), actions=actions)
    request = credential_request(turn, done, event_id=f"{inv}.3")
    assert request
    done.actions = EventActions()
    return [turn, done, request]


def working(inv: str = "i") -> list[Event]:
    """A turn whose call `order` is long-running and has answered preliminarily."""
    turn = calls(f"{inv}.1", (f"{inv}-order", "order", {"item": "tea"}), long=(f"{inv}-order",))
    return [turn, responses(f"{inv}.2", answer(f"{inv}-order", "order", {"status": "pending"}))]


def consent(**oauth2: str) -> dict[str, Any]:
    """What a client sends back to a credential request."""
    config = auth_config()
    assert config.exchanged_auth_credential
    config.exchanged_auth_credential.oauth2 = OAuth2Auth(client_id="c", **oauth2)
    return config.model_dump(mode="json", by_alias=True, exclude_none=True)


GOOD: dict[str, dict[str, Any]] = {
    REQUEST_CONFIRMATION: {"confirmed": True},
    REQUEST_CREDENTIAL: consent(auth_code=CANARY, auth_response_uri="https://back?state=st&code=x"),
    "order": {"status": "done"},
}
"""An answer to each kind of call that is accepted."""
