"""`Event`: the message type for everything in a session."""

from collections.abc import Mapping
from typing import Any, cast
from uuid import uuid4

from google.genai import types
from pydantic import ConfigDict, Field, ValidationError, field_serializer, model_validator
from pydantic_core import PydanticSerializationError

from durable_adk.errors import StateValueError
from durable_adk.events.event_actions import EventActions
from durable_adk.json_values import JsonModel
from durable_adk.models.llm_response import LlmResponse

RUNTIME_METADATA = "adk_"
"""Prefix of the keys of `custom_metadata` that only the runtime sets; requests with one are
refused."""
MISSING_TOOLSETS = "adk_missing_toolsets"
"""Key of the toolsets that could not be listed for the model call, each with the reason."""
MODEL_CALL = "adk_model_call"
"""Key of the first event of a model call, on the further events of the same call."""
ANSWERED_BY = "adk_answered_by"
"""Key of the sender of an answer, on the answer's event; see `InvocationAnswer.answered_by`."""
_ACTIONS = {
    key for name, field in EventActions.model_fields.items() for key in (name, field.alias or name)
}
_SHORTHANDS = ("message", "state", "route", "node_path")


def _is_unset(value: Any) -> bool:
    return value is None or value == NodeInfo()


def runtime_marks(metadata: Mapping[str, Any] | None) -> list[str]:
    """Return the keys of `custom_metadata` that only the runtime sets."""
    return [key for key in metadata or () if key.startswith(RUNTIME_METADATA)]


class NodeInfo(JsonModel):
    """The node of a graph that an event is from (GR-5)."""

    model_config = ConfigDict(extra="ignore", from_attributes=True)  # of google-adk's, too

    path: str = ""
    """The node and the workflows around it, each with its run id: ``wf@1/draft@2``."""
    output_for: list[str] | None = None
    """Paths of the nodes whose output the event has."""
    message_as_output: bool | None = None
    """Whether the event's content is the output."""

    @property
    def name(self) -> str:
        """The node's name."""
        return self._parts(-1)[0]

    @property
    def run_id(self) -> str:
        """The id of the node's run; empty without one."""
        return self._parts(-1)[1]

    @property
    def parent_run_id(self) -> str | None:
        """The id of the run around it; None without one."""
        return (self._parts(-2)[1] or None) if "/" in self.path else None

    def _parts(self, place: int) -> tuple[str, str]:
        segment = self.path.split("/")[place]
        name, at, run_id = segment.rpartition("@")
        return (name, run_id) if at else (segment, "")


class Event(LlmResponse):
    """One thing that happened in a session: a message, a call, a result, a change.

    An event does not generate its own id or timestamp: the loop sets both at commit (D5), so
    that a retried step produces the same event, and `append_event` where there is no loop. A
    committed event never changes. Unknown fields are ignored, as in ADK (EVT-3).

    ``Event(message="Hi!", state={"k": 1}, route="again", node_path="wf@1/ask@2")`` is short for
    content with that message, actions with that `state_delta` and `route`, and `node_info` with
    that path.
    """

    model_config = ConfigDict(extra="ignore")

    author: str = ""
    invocation_id: str = ""
    id: str = ""
    timestamp: float = 0.0
    """Seconds since the epoch; informational only, order is the store's sequence (TRAP-15)."""
    actions: EventActions = Field(default_factory=EventActions)
    branch: str | None = None
    long_running_tool_ids: set[str] | None = None
    compacted_event_ids: list[str] | None = None
    """Ids of the first and last event that `actions.compaction` replaces; None if ADK wrote it."""
    output: Any = Field(default=None, exclude_if=_is_unset)
    """The output of a node of a graph (GR-5)."""
    node_info: NodeInfo = Field(default_factory=NodeInfo, exclude_if=_is_unset)
    isolation_scope: str | None = Field(default=None, exclude_if=_is_unset)
    """The task whose agent alone sees the event; None for the agents without a task."""

    @model_validator(mode="before")
    @classmethod
    def _routed(cls, data: Any) -> Any:
        """Convert ADK's shorthands to fields, and drop actions of other ADK versions."""
        if not isinstance(data, dict):
            return data
        fields = cast("dict[str, Any]", data)
        if isinstance(fields.get("actions"), dict):
            actions = cast("dict[str, Any]", fields["actions"])
            # Actions that only another ADK version knows are dropped.
            known = {name: value for name, value in actions.items() if name in _ACTIONS}
            fields = {**fields, "actions": known}
        shortened = any(name in fields for name in _SHORTHANDS)
        return _without_shorthands(fields) if shortened else fields

    @field_serializer("long_running_tool_ids")
    def _sorted_ids(self, ids: set[str] | None) -> list[str] | None:
        return None if ids is None else sorted(ids)  # a set's own order differs between processes

    def storable_json(self, what: str) -> str:
        """Return the event as JSON that can be read back; see `storable`."""
        return self.storable(what)[0]

    def storable(self, what: str) -> "tuple[str, Event]":
        """Return the event as JSON, and as it is read back; assignments do not check their values.

        Args:
            what: The event's name in the error message.

        Raises:
            StateValueError: A field has a value of another type.
        """
        try:
            text = self.model_dump_json(by_alias=True, exclude_none=True, warnings="none")
            read = Event.from_json(text)
        except (ValidationError, PydanticSerializationError) as error:
            raise StateValueError(f"{what} could not be read from a store: {error}") from None
        return text, read

    @staticmethod
    def new_id() -> str:
        """Return a random id, for events created outside of a run."""
        return str(uuid4())

    @property
    def node_name(self) -> str:
        """The name of the node that the event is from; empty outside of graphs."""
        return self.node_info.name

    @property
    def message(self) -> types.Content | None:
        """The content."""
        return self.content

    @message.setter
    def message(self, value: Any) -> None:
        self.content = None if value is None else _content(value)

    @property
    def text(self) -> str:
        """The text of all parts that are not thoughts."""
        return "".join(part.text for part in self.parts if part.text and not part.thought)

    def has_trailing_code_execution_result(self) -> bool:
        """Return whether the last part is the result of executed code (EVT-8)."""
        return bool(self.parts) and self.parts[-1].code_execution_result is not None

    def is_final_response(self) -> bool:
        """Return whether this is the agent's complete output for the turn (EVT-10, OPEN-1).

        Events without content are final by this rule, which is ADK's own. In the seed catalogue's
        other reading, a user interface has nothing to show for them.
        """
        if self.actions.skip_summarization or self.long_running_tool_ids:
            return True
        if self.error_code and not self.partial and not self.get_function_calls():
            return True
        return (
            not self.get_function_calls()
            and not self.get_function_responses()
            and not self.partial
            and not self.has_trailing_code_execution_result()
        )


def _without_shorthands(data: dict[str, Any]) -> dict[str, Any]:
    """Replace the shorthands by content, actions and node info."""
    fields = dict(data)
    message, state, route, path = (fields.pop(name, None) for name in _SHORTHANDS)
    if message is not None:
        if fields.get("content") is not None:
            raise ValueError("give either 'message' or 'content', not both")
        fields["content"] = _content(message)
    short = {"state_delta": state, "route": route}
    _update(fields, "actions", EventActions, short)
    _update(fields, "node_info", NodeInfo, {"path": path})
    return fields


def _update(
    fields: dict[str, Any], name: str, kind: type[JsonModel], short: dict[str, Any]
) -> None:
    """Set what the shorthands say in one of an event's models, and validate it."""
    given = {key: value for key, value in short.items() if value is not None}
    if not given:
        return
    checked = kind.model_validate(given)
    model = kind.model_validate(fields.get(name) or {})
    fields[name] = model.model_copy(update={key: getattr(checked, key) for key in given})


def _content(message: Any) -> types.Content:
    """Convert any value that google-genai accepts as content: text, parts, a content."""
    if isinstance(message, types.Content):
        return message
    if isinstance(message, dict):
        whole = "parts" in message
        kind = types.Content if whole else types.Part
        return _content(kind.model_validate(message))
    called = isinstance(message, types.Part) and message.function_call
    made = types.ModelContent(message) if called else types.UserContent(message)
    return types.Content(role=made.role, parts=made.parts)
