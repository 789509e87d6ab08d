"""A pending call as JSON, for the client that answers it."""

from typing import Any, Literal

from pydantic import Field

from durable_adk.conversation.client_requests import shown_request
from durable_adk.conversation.pending_calls import PendingCall
from durable_adk.events.request_input import REQUEST_INPUT
from durable_adk.json_values import JsonModel
from durable_adk.sessions.session import SessionKey
from durable_adk.tools.require_confirmation import is_runtime_hint
from durable_adk.wire.manifest import OnDeadline


class PendingRequest(JsonModel):
    """A call's request, and where to send its answer."""

    app_name: str
    user_id: str
    session_id: str
    invocation_id: str
    call_id: str
    name: str
    """The tool that was called; for a confirmation, the tool to approve."""
    kind: Literal["confirmation", "long_running", "input", "credential"]
    arguments: dict[str, Any] = Field(default_factory=dict[str, Any])
    hint: str | None = None
    payload: Any = None
    """Values that the tool requests."""
    response_schema: dict[str, Any] | None = Field(default=None, serialization_alias="schema")
    """JSON Schema of the answer."""
    editable: bool = False
    """Whether the answer may change `payload`."""
    auth_config: dict[str, Any] | None = None
    """The requested credential configuration; it contains no secret."""
    author: str
    """The agent that made the call."""
    message: str | None = None
    """The beginning of the invocation's first message; only in the list of all calls."""
    requested_at: float
    """Seconds since the epoch."""
    deadline: float | None = None
    """When it is decided without an answer, in seconds since the epoch; None: never."""
    on_deadline: OnDeadline | None = None
    """What happens then: ``approve`` or ``reject`` a confirmation, ``tell`` the model that there is
    no answer to another call, ``fail`` the run. None: nothing."""


def pending_request(
    key: SessionKey, call: PendingCall, *, message: str | None = None
) -> PendingRequest:
    """Return a pending call of a session as JSON."""
    shown = shown_request(call.name, call.args)
    arguments: Any = shown.get("arguments") or {}
    hint = shown.get("hint")
    is_input = call.kind == "long_running" and call.name == REQUEST_INPUT
    return PendingRequest(
        app_name=key.app_name,
        user_id=key.user_id,
        session_id=key.session_id,
        invocation_id=call.invocation_id,
        call_id=call.call_id,
        name=call.original_name or call.name,
        kind="input" if is_input else call.kind,
        arguments=arguments,
        # The runtime's own hint is for programs; a person is shown the call itself.
        hint=None if is_runtime_hint(hint, call.original_name or call.name) else hint,
        payload=shown.get("payload"),
        response_schema=shown.get("responseSchema"),
        editable=shown.get("payload") is not None,
        auth_config=shown.get("authConfig"),
        author=call.author,
        message=message,
        requested_at=call.requested_at,
        deadline=call.deadline,
        on_deadline=call.on_deadline,
    )
