"""Conversion of events, requests and responses to and from google-adk's classes."""

# pyright: reportPrivateUsage=false
# google-adk's own tools, and its users, read some of its private attributes.

from collections.abc import Iterable
from typing import Any, TypeVar

from google.adk.auth.auth_credential import AuthCredential as AdkAuthCredential
from google.adk.auth.auth_tool import AuthConfig as AdkAuthConfig
from google.adk.events.event import Event as AdkEvent, NodeInfo as AdkNodeInfo
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
from durable_adk.calling.copies import lazy, lazy_models
from durable_adk.events.event import Event, NodeInfo
from durable_adk.events.event_actions import EventActions, EventCompaction
from durable_adk.events.tool_confirmation import ToolConfirmation
from durable_adk.models.llm_request import LlmRequest
from durable_adk.models.llm_response import LlmResponse

M = TypeVar("M", bound=BaseModel)
_RESPONSE = LlmResponse.model_fields.keys() & AdkLlmResponse.model_fields.keys()
_EVENT = (Event.model_fields.keys() & AdkEvent.model_fields.keys()) - {"actions", "id", "node_info"}
_PLAIN = (
    "skip_summarization",
    "transfer_to_agent",
    "escalate",
    "end_of_agent",
    "agent_state",
    "rewind_before_invocation_id",
    "route",
    "set_model_response",
)
"""The actions that are the same in both packages."""


def _fields(value: BaseModel, names: Iterable[str]) -> dict[str, Any]:
    return {name: field for name in names if (field := getattr(value, name)) is not None}


def _as(kind: type[M], value: BaseModel) -> M:
    """Convert a value to another class with the same JSON."""
    data = value.model_dump(mode="json", by_alias=True, exclude_none=True)
    return kind.model_validate(data)


# ----- responses and requests


def adk_response(response: LlmResponse) -> AdkLlmResponse:
    """Convert a response to google-adk's class; the content is shared."""
    return AdkLlmResponse.model_construct(**_fields(response, _RESPONSE))


def our_response(response: AdkLlmResponse) -> LlmResponse:
    """Convert a response of google-adk; the content is shared."""
    return LlmResponse(**_fields(response, _RESPONSE))


def adopt_response(response: LlmResponse, changed: AdkLlmResponse) -> None:
    """Adopt the changes that code has made to google-adk's copy of a response."""
    for name in _RESPONSE:
        value = getattr(changed, name)
        if value is not getattr(response, name):
            setattr(response, name, value)


def adk_request(request: LlmRequest, tools: dict[str, Any]) -> AdkLlmRequest:
    """Convert a request to google-adk's class; contents and config are shared.

    Args:
        request: This package's request.
        tools: Its tools as google-adk's, by name.
    """
    return AdkLlmRequest.model_construct(
        model=request.model, contents=request.contents, config=request.config, tools_dict=tools
    )


# ----- confirmations and credentials


def adk_confirmation(confirmation: ToolConfirmation | None) -> AdkToolConfirmation | None:
    """Convert a confirmation to google-adk's class."""
    return confirmation and AdkToolConfirmation.model_validate(confirmation.model_dump())


def adk_auth_config(config: AuthConfig) -> AdkAuthConfig:
    """Convert a credential's configuration to google-adk's class."""
    return _as(AdkAuthConfig, config)


def our_auth_config(config: AdkAuthConfig) -> AuthConfig:
    """Convert a credential's configuration of google-adk."""
    return _as(AuthConfig, config)


def adk_credential(credential: AuthCredential | None) -> AdkAuthCredential | None:
    """Convert a credential to google-adk's class."""
    return credential and _as(AdkAuthCredential, credential)


# ----- actions


def adk_actions(actions: EventActions) -> AdkEventActions:
    """Convert actions to google-adk's class; the changes of state and artifacts are shared."""
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
    """Copy requests made since the conversion into google-adk's actions."""
    for call, config in actions.requested_auth_configs.items():
        if call not in made.requested_auth_configs:
            made.requested_auth_configs[call] = adk_auth_config(config)
    for call, confirmation_request in actions.requested_tool_confirmations.items():
        if call not in made.requested_tool_confirmations:
            confirmation = AdkToolConfirmation.model_validate(confirmation_request.model_dump())
            made.requested_tool_confirmations[call] = confirmation


def adopt_actions(actions: EventActions, made: AdkEventActions) -> None:
    """Copy the changes that code has made to google-adk's actions into this package's."""
    for name in _PLAIN:
        value = getattr(made, name)
        if value != getattr(actions, name):
            setattr(actions, name, value)
    for name in ("state_delta", "artifact_delta"):
        if getattr(made, name) is not getattr(actions, name):  # the code has assigned another dict
            getattr(actions, name).update(getattr(made, name))
    for call, config in made.requested_auth_configs.items():
        if call not in actions.requested_auth_configs:
            actions.requested_auth_configs[call] = our_auth_config(config)
    for call, confirmation_request in made.requested_tool_confirmations.items():
        if call not in actions.requested_tool_confirmations:
            confirmation = ToolConfirmation.model_validate(confirmation_request.model_dump())
            actions.requested_tool_confirmations[call] = confirmation
    if made.compaction is not None:
        actions.compaction = _as(EventCompaction, made.compaction)


def our_actions(made: AdkEventActions) -> EventActions:
    """Convert actions of google-adk."""
    actions = EventActions()
    adopt_actions(actions, made)
    return actions


# ----- events and sessions


class SharedEvent(AdkEvent):
    """An event of google-adk's class that was converted from this package's."""

    _ours: Event | None = PrivateAttr(default=None)

    @property
    def ours(self) -> Event | None:
        """This package's event."""
        return self._ours


def adk_event(event: Event) -> "SharedEvent":
    """Convert an event to google-adk's class; the content is shared."""
    made = SharedEvent.model_construct(
        id=event.id or "-",
        actions=adk_actions(event.actions),
        node_info=AdkNodeInfo.model_validate(event.node_info.model_dump()),
        **_fields(event, _EVENT),
    )
    made.id = event.id
    made._ours = event
    return made


def our_event(event: AdkEvent) -> Event:
    """Convert an event of google-adk.

    Its random id is dropped: the loop assigns one that is the same at each replay. An event that
    was converted from this package's becomes the same object again, with its changes.
    """
    ours = event.ours if isinstance(event, SharedEvent) else None
    if ours is None:
        fields = _fields(event, _EVENT - {"timestamp"})
        # Else those of the event that a plugin replaces count (PLG-6).
        if "actions" in event.model_fields_set or event.actions != AdkEventActions():
            fields["actions"] = our_actions(event.actions)
        return Event(**fields, node_info=NodeInfo.model_validate(event.node_info))
    for name in _EVENT:
        value = getattr(event, name)
        if value is not getattr(ours, name):
            setattr(ours, name, value)
    ours.node_info = NodeInfo.model_validate(event.node_info)
    adopt_actions(ours.actions, event.actions)
    return ours


def adk_session(session: Any) -> AdkSession:
    """Convert a session of a step or of the loop to google-adk's class; the state is shared."""
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
