"""What an event is and how it is read: the rows of the seeds' page on events.

Where the page's catalogue and its own rule for `is_final_response` say different things, the rule
decides, as in ADK 2.13 (OPEN-1); the catalogue's word is beside it in `CATALOGUE`.
"""

from typing import Any, NamedTuple

import pytest
from google.genai import types

from durable_adk.events import Event, EventActions
from durable_adk.models import LlmResponse

CALL = types.Part(
    function_call=types.FunctionCall(id="c1", name="find_airports", args={"city": "London"})
)
RESPONSE = types.Part(
    function_response=types.FunctionResponse(
        id="c1", name="find_airports", response={"result": ["LHR"]}
    )
)
CODE = types.Part(
    executable_code=types.ExecutableCode(code="print(1)", language=types.Language.PYTHON)
)
CODE_RESULT = types.Part(
    code_execution_result=types.CodeExecutionResult(outcome=types.Outcome.OUTCOME_OK, output="1")
)


def event(*parts: types.Part | str, author: str = "TravelAgent", **fields: Any) -> Event:
    """An event of an agent, with content if parts are passed; `role` is the content's."""
    role = fields.pop("role", "model")
    made = [types.Part(text=part) if isinstance(part, str) else part for part in parts]
    content = types.Content(role=role, parts=made) if made else None
    return Event(author=author, invocation_id="e-1", content=content, **fields)


def doing(*parts: types.Part | str, role: str = "model", **actions: Any) -> Event:
    """An event with actions."""
    return event(*parts, role=role, actions=EventActions(**actions))


class Entry(NamedTuple):
    """An event of the catalogue, and whether it is final."""

    event: Event
    final: bool
    catalogue: bool | None
    """What the seeds' catalogue says; None: nothing, or it depends."""
    kind: str
    """What a consumer takes it for, in the seeds' order of questions (row 141)."""


CATALOGUE = {
    "169 user input": Entry(event("hi", author="user", role="user"), True, None, "text"),
    "170 final text": Entry(event("Bye.", partial=False, turn_complete=True), True, True, "text"),
    "171 streamed text": Entry(event("By", partial=True), False, False, "partial text"),
    "172 call": Entry(event(CALL), False, False, "calls"),
    "172 long-running call": Entry(event(CALL, long_running_tool_ids={"c1"}), True, None, "calls"),
    "173 result": Entry(event(RESPONSE, role="user"), False, None, "responses"),
    "173 result as it is": Entry(
        doing(RESPONSE, role="user", skip_summarization=True), True, None, "responses"
    ),
    "174 state only": Entry(doing(state_delta={"k": 1}), True, False, "change"),
    "174 artifact only": Entry(doing(artifact_delta={"a.txt": 0}), True, False, "change"),
    "175 hand-over on a result": Entry(
        doing(RESPONSE, role="user", transfer_to_agent="b"), False, False, "responses"
    ),
    "175 hand-over alone": Entry(doing(transfer_to_agent="b"), True, False, "signal"),
    "176 escalation alone": Entry(doing(escalate=True), True, False, "signal"),
    "176 escalation by exit_loop": Entry(
        doing(RESPONSE, role="user", escalate=True, skip_summarization=True),
        True,
        False,
        "responses",
    ),
    "code and its result": Entry(event("So:", CODE, CODE_RESULT), False, None, "text"),
    "text after a code result": Entry(event(CODE_RESULT, "So."), True, None, "other content"),
    "error": Entry(event(error_code="SAFETY", error_message="no"), True, None, "signal"),
    "error in a chunk": Entry(event(error_code="SAFETY", partial=True), False, None, "signal"),
    "error beside a call": Entry(event(CALL, error_code="X"), False, None, "calls"),
    "error beside a result": Entry(event(RESPONSE, error_code="X"), True, None, "responses"),
}

parametrize = pytest.mark.parametrize("entry", CATALOGUE.values(), ids=list(CATALOGUE))


@parametrize
def test_the_rule_decides_what_is_final(entry: Entry) -> None:
    """Rows 150 to 154, 169 to 176, EVT-10, OPEN-1: as ADK 2.13 answers for the same events."""
    assert entry.event.is_final_response() is entry.final


def test_the_catalogue_differs_for_events_without_an_answer_only() -> None:
    """Rows 151, 174 to 176, EVT-11: where they disagree there is no text to be shown."""
    differing = {
        name: entry
        for name, entry in CATALOGUE.items()
        if entry.catalogue is not None and entry.catalogue is not entry.final
    }
    assert {name.split()[0] for name in differing} == {"174", "175", "176"}
    assert all(not entry.event.text for entry in differing.values())


def kind(event: Event) -> str:
    """A consumer's questions in the order the seeds give (EVT-14)."""
    if event.get_function_calls():
        return "calls"
    if event.get_function_responses():
        return "responses"
    if event.content and event.content.parts:
        if event.content.parts[0].text:
            return "partial text" if event.partial else "text"
        return "other content"
    if event.actions.state_delta or event.actions.artifact_delta:
        return "change"
    return "signal"


@parametrize
def test_a_consumer_can_tell_what_it_has_got(entry: Entry) -> None:
    """Rows 126, 136, 140 to 142, 194: the questions work on every event, content or not."""
    assert kind(entry.event) == entry.kind


def shown(events: list[Event]) -> list[str]:
    """The seeds' way to show a turn, with the whole text in place of the pieces (EVT-15)."""
    pieces, lines = "", list[str]()
    for item in events:
        if item.partial:
            pieces += item.text
        elif item.is_final_response():
            lines.append(shown_as(item) or pieces)
            pieces = ""
    return lines


def shown_as(item: Event) -> str:
    """What a final event says to the user."""
    if item.text:
        return item.text
    if item.actions.skip_summarization:
        return str(item.get_function_responses()[0].response)
    if item.long_running_tool_ids:
        return "running in the background"
    return "nothing to show"


def test_the_seeds_way_to_show_a_turn_works() -> None:
    """Row 155, EVT-15: streamed text, a raw result, work in the background, and the rest."""
    names = [
        "171 streamed text",
        "170 final text",
        "173 result as it is",
        "172 long-running call",
        "174 state only",
    ]
    assert shown([CATALOGUE[name].event for name in names]) == [
        "Bye.",
        "{'result': ['LHR']}",
        "running in the background",
        "nothing to show",
    ]


def test_an_event_is_a_model_response_with_more() -> None:
    """Rows 35, 50, 127, 128, 131, 132, 145: made as the seeds show it, with the fields named."""
    content = types.Content(parts=[types.Part(text="done")])
    actions = EventActions(state_delta={"field_1": "value_2"})
    made = Event(author="a", actions=actions, content=content)
    assert isinstance(made, LlmResponse)
    assert made.content == content
    assert made.actions.state_delta == {"field_1": "value_2"}
    assert made.actions.artifact_delta == {}
    assert (made.id, made.invocation_id, made.branch, made.partial) == ("", "", None, None)
    assert isinstance(made.timestamp, float)
    assert (made.error_code, made.error_message, made.turn_complete) == (None, None, None)


def test_actions_are_read_under_their_names() -> None:
    """Rows 133, 145 to 149: changes, versions, hand-over, escalation, unsummarised result."""
    actions = doing(
        state_delta={"k": 1},
        artifact_delta={"a.txt": 3},
        transfer_to_agent="billing",
        escalate=True,
        skip_summarization=True,
    ).actions
    assert (actions.state_delta, actions.artifact_delta) == ({"k": 1}, {"a.txt": 3})
    assert (actions.transfer_to_agent, actions.escalate) == ("billing", True)
    assert actions.skip_summarization is True
    nothing = EventActions()
    assert (nothing.transfer_to_agent, nothing.escalate, nothing.skip_summarization) == (None,) * 3


def test_calls_and_responses_are_read_by_their_helpers() -> None:
    """Rows 137 to 139, 173, EVT-6, EVT-7: all of them, in order; none without content."""
    asked = event("Let me see.", CALL, CALL)
    assert [(item.name, item.args) for item in asked.get_function_calls()] == [
        ("find_airports", {"city": "London"})
    ] * 2
    answered = event(RESPONSE, role="user")
    assert answered.author == "TravelAgent"
    assert answered.content is not None
    assert answered.content.role == "user"
    assert [(item.name, item.response) for item in answered.get_function_responses()] == [
        ("find_airports", {"result": ["LHR"]})
    ]
    assert asked.get_function_responses() == answered.get_function_calls() == []
    assert event().get_function_calls() == event().get_function_responses() == []


@parametrize
def test_an_event_survives_its_json(entry: Entry) -> None:
    """Rows 124, 125, 130, EVT-3: written as ADK writes it, and read back equal."""
    text = entry.event.to_json()
    assert '"invocationId":"e-1"' in text
    assert "null" not in text
    assert Event.from_json(text) == entry.event
    assert Event.model_validate(entry.event.model_dump()) == entry.event


def test_the_model_layers_errors_are_fields() -> None:
    """Rows 188, 190: an error has code and message; a tool's own error is in its response."""
    failed = event(error_code="SAFETY", error_message="blocked")
    assert (failed.error_code, failed.error_message) == ("SAFETY", "blocked")
    response = types.FunctionResponse(id="c1", name="f", response={"error": "no such city"})
    told = event(types.Part(function_response=response), role="user")
    assert told.error_code is None
    assert told.get_function_responses()[0].response == {"error": "no such city"}
