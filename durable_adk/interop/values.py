"""Events, requests and responses of google-adk's classes, and ours made of them."""

# pyright: reportPrivateUsage=false
# What google-adk keeps private is part of what its own tools and its users read.

from collections.abc import Iterable
from typing import Any, TypeVar

from google.adk.auth.auth_credential import AuthCredential as AdkAuthCredential
from google.adk.auth.auth_tool import AuthConfig as AdkAuthConfig
from google.adk.events.event import Event as AdkEvent
from google.adk.events.event_actions import (
    EventActions as AdkEventActions,
    EventCompaction as AdkEventCompaction,
)
from google.adk.models.llm_request import LlmRequest as AdkLlmRequest
from google.adk.models.llm_response import LlmResponse as AdkLlmResponse
from google.adk.sessions.session import Session as AdkSession
from google.adk.tools.tool_confirmation import ToolConfirmation as AdkToolConfirmation
from pydantic import BaseModel, PrivateAttr

from durable_adk.auth.auth_credential import AuthCredential
from durable_adk.auth.auth_tool import AuthConfig
from durable_adk.events.copies import lazy, lazy_models
from durable_adk.events.event import Event
from durable_adk.events.event_actions import EventActions, EventCompaction
from durable_adk.events.tool_confirmation import ToolConfirmation
from durable_adk.models.llm_request import LlmRequest
from durable_adk.models.llm_response import LlmResponse

M = TypeVar("M", bound=BaseModel)
_RESPONSE = LlmResponse.model_fields.keys() & AdkLlmResponse.model_fields.keys()
_EVENT = (Event.model_fields.keys() & AdkEvent.model_fields.keys()) - {"actions", "id"}
_PLAIN = (
    "skip_summarization",
    "transfer_to_agent",
    "escalate",
    "end_of_agent",
    "agent_state",
    "rewind_before_invocation_id",
    "set_model_response",
)
"""The actions that are the same in both."""
_ASKED = ("requested_auth_configs", "requested_tool_confirmations", "compaction")


def _fields(value: BaseModel, names: Iterable[str]) -> dict[str, Any]:
    return {name: field for name in names if (field := getattr(value, name)) is not None}


def _as(kind: type[M], value: BaseModel) -> M:
    """The value as one of another class with the same JSON."""
    data = value.model_dump(mode="json", by_alias=True, exclude_none=True)
    return kind.model_validate(data)


# ----- responses and requests


def adk_response(response: LlmResponse) -> AdkLlmResponse:
    """Return a response as google-adk's; it shares the content."""
    return AdkLlmResponse.model_construct(**_fields(response, _RESPONSE))


def our_response(response: AdkLlmResponse) -> LlmResponse:
    """Return a response of google-adk's as ours; it shares the content."""
    return LlmResponse(**_fields(response, _RESPONSE))


def take_response(response: LlmResponse, changed: AdkLlmResponse) -> None:
    """Take what code has changed in place of the response that it was given."""
    for name in _RESPONSE:
        value = getattr(changed, name)
        if value is not getattr(response, name):
            setattr(response, name, value)


def adk_request(request: LlmRequest, tools: dict[str, Any]) -> AdkLlmRequest:
    """Return a request as google-adk's; it shares contents and config.

    Args:
        request: Ours.
        tools: Its tools as google-adk's, by name.
    """
    return AdkLlmRequest.model_construct(
        model=request.model, contents=request.contents, config=request.config, tools_dict=tools
    )


# ----- confirmations and credentials


def adk_confirmation(confirmation: ToolConfirmation | None) -> AdkToolConfirmation | None:
    """Return a decision as google-adk's."""
    return confirmation and AdkToolConfirmation.model_validate(confirmation.model_dump())


def adk_auth_config(config: AuthConfig) -> AdkAuthConfig:
    """Return a credential's configuration as google-adk's."""
    return _as(AdkAuthConfig, config)


def our_auth_config(config: AdkAuthConfig) -> AuthConfig:
    """Return a credential's configuration of google-adk's as ours."""
    return _as(AuthConfig, config)


def adk_credential(credential: AuthCredential | None) -> AdkAuthCredential | None:
    """Return a credential as google-adk's."""
    return credential and _as(AdkAuthCredential, credential)


# ----- actions


def adk_actions(actions: EventActions) -> AdkEventActions:
    """Return actions as google-adk's, which share the changes of state and artifacts."""
    made = AdkEventActions.model_construct(
        state_delta=actions.state_delta,
        artifact_delta=actions.artifact_delta,
        **_fields(actions, _PLAIN),
    )
    show_requests(actions, made)
    if actions.compaction is not None:
        made.compaction = _as(AdkEventCompaction, actions.compaction)
    return made


def show_requests(actions: EventActions, made: AdkEventActions) -> None:
    """Show in google-adk's actions what has been requested since they were made."""
    for call, config in actions.requested_auth_configs.items():
        if call not in made.requested_auth_configs:
            made.requested_auth_configs[call] = adk_auth_config(config)
    for call, asked in actions.requested_tool_confirmations.items():
        if call not in made.requested_tool_confirmations:
            confirmation = AdkToolConfirmation.model_validate(asked.model_dump())
            made.requested_tool_confirmations[call] = confirmation


def take_actions(actions: EventActions, made: AdkEventActions) -> None:
    """Take what code has set in google-adk's actions."""
    for name in _PLAIN:
        value = getattr(made, name)
        if value != getattr(actions, name):
            setattr(actions, name, value)
    for name in ("state_delta", "artifact_delta"):
        if getattr(made, name) is not getattr(actions, name):  # the code has put another dict there
            getattr(actions, name).update(getattr(made, name))
    for call, config in made.requested_auth_configs.items():
        if call not in actions.requested_auth_configs:
            actions.requested_auth_configs[call] = our_auth_config(config)
    for call, asked in made.requested_tool_confirmations.items():
        if call not in actions.requested_tool_confirmations:
            confirmation = ToolConfirmation.model_validate(asked.model_dump())
            actions.requested_tool_confirmations[call] = confirmation
    if made.compaction is not None:
        actions.compaction = _as(EventCompaction, made.compaction)


def our_actions(made: AdkEventActions) -> EventActions:
    """Return actions of google-adk's as ours."""
    actions = EventActions()
    take_actions(actions, made)
    return actions


# ----- events and sessions


class SharedEvent(AdkEvent):
    """An event of google-adk's class that was made of one of ours."""

    _ours: Event | None = PrivateAttr(default=None)

    @property
    def ours(self) -> Event | None:
        """The event that it was made of."""
        return self._ours


def adk_event(event: Event) -> "SharedEvent":
    """Return an event as google-adk's; it shares the content."""
    made = SharedEvent.model_construct(
        id=event.id or "-", actions=adk_actions(event.actions), **_fields(event, _EVENT)
    )
    made.id = event.id
    made._ours = event
    return made


def our_event(event: AdkEvent) -> Event:
    """Return an event of google-adk's as ours.

    Its id is left out, which is random: the loop gives one that is the same at each replay. An
    event that was made of ours becomes the same object again, with what has been changed.
    """
    ours = event.ours if isinstance(event, SharedEvent) else None
    if ours is None:
        fields = _fields(event, _EVENT - {"timestamp"})
        if "actions" in event.model_fields_set:  # else what it replaces keeps its own (PLG-6)
            fields["actions"] = our_actions(event.actions)
        return Event(**fields)
    for name in _EVENT:
        value = getattr(event, name)
        if value is not getattr(ours, name):
            setattr(ours, name, value)
    take_actions(ours.actions, event.actions)
    return ours


def adk_session(session: Any) -> AdkSession:
    """Return a session, be it of a step or of the loop, as google-adk's; it shares the state."""
    return lazy(
        AdkSession,
        _with_events,
        session,
        id=session.id,
        app_name=session.app_name,
        user_id=session.user_id,
        state=session.state,
        last_update_time=getattr(session, "last_update_time", 0.0),
    )


def _with_events(session: Any) -> AdkSession:
    return AdkSession.model_construct(events=lazy_models(SharedEvent, adk_event, session.events))
