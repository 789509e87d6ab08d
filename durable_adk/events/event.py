"""`Event`: the message type that carries everything in a session."""

from google.genai import types
from pydantic import Field, field_serializer

from durable_adk.events.event_actions import EventActions
from durable_adk.models.llm_response import LlmResponse


class Event(LlmResponse):
    """One thing that happened in a session: a message, a call, a result, a change (semantics 2).

    An event does not generate its own id or timestamp: the loop sets both at commit (design D5), so
    that a retried step produces the same event. A committed event never changes.
    """

    author: str = ""
    invocation_id: str = ""
    id: str = ""
    timestamp: float = 0.0
    """Seconds since the epoch; decoration only, order is the store's sequence (TRAP-15)."""
    actions: EventActions = Field(default_factory=EventActions)
    branch: str | None = None
    long_running_tool_ids: set[str] | None = None

    @field_serializer("long_running_tool_ids")
    def _sorted_ids(self, ids: set[str] | None) -> list[str] | None:
        return None if ids is None else sorted(ids)  # a set's own order differs between processes

    @property
    def parts(self) -> list[types.Part]:
        """The content's parts; empty when there is no content."""
        return (self.content.parts or []) if self.content else []

    @property
    def text(self) -> str:
        """The text of all parts that are not thoughts."""
        return "".join(part.text for part in self.parts if part.text and not part.thought)

    def get_function_calls(self) -> list[types.FunctionCall]:
        """The calls the model asks for, in order (semantics EVT-6)."""
        return [part.function_call for part in self.parts if part.function_call]

    def get_function_responses(self) -> list[types.FunctionResponse]:
        """The results of calls, in order (semantics EVT-7)."""
        return [part.function_response for part in self.parts if part.function_response]

    def has_trailing_code_execution_result(self) -> bool:
        """Whether the last part is the result of executed code (semantics EVT-8)."""
        return bool(self.parts) and self.parts[-1].code_execution_result is not None

    def is_final_response(self) -> bool:
        """Whether this is the agent's complete output for the turn (semantics EVT-10, OPEN-1).

        Events without content are final by this rule, which is ADK's own; the seed catalogue's
        other reading is that a user interface has nothing to show for them.
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
