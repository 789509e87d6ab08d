"""The event beside ADK's: its JSON in both directions, and its shorthands."""

import json

import pytest
from google.genai import types
from pydantic import TypeAdapter, ValidationError

from durable_adk.auth import AuthConfig
from durable_adk.events import Event, EventActions
from durable_adk.events.event_compaction import compaction_event
from durable_adk.events.tool_confirmation import ToolConfirmation
from durable_adk.sessions import Session
from tests.support.histories import event, session

BY_ADK = """
{"content":{"parts":[{"text":"hi"},{"inlineData":{"data":"_wA-Pw==","mimeType":"image/png"}}],
"role":"model"},"invocationId":"i","author":"a","actions":{"stateDelta":{"k":1},"artifactDelta":{},
"transferReason":"r","requestedAuthConfigs":{"c":{"authScheme":{"type":"apiKey","in":"header",
"name":"X"},"rawAuthCredential":{"authType":"apiKey","apiKey":"k"},"credentialKey":"one"}},
"requestedToolConfirmations":{"c":{"hint":"h","confirmed":false}},"compaction":{"startTimestamp":0.0
,"endTimestamp":1.0,"compactedContent":{"parts":[{"text":"s"}]}}},"nodeInfo":{"path":""},"id":"x",
"timestamp":1.0}
"""
"""An event as google-adk 2.13.0 stores it."""
ADKS_EVENT = {
    *("content", "partial", "turnComplete", "errorCode", "errorMessage", "interrupted"),
    *("finishReason", "modelVersion", "groundingMetadata", "citationMetadata", "usageMetadata"),
    *("avgLogprobs", "logprobsResult", "customMetadata", "interactionId", "environmentId"),
    *("author", "invocationId", "id", "timestamp", "actions", "branch", "longRunningToolIds"),
    *("output", "nodeInfo", "isolationScope"),
}
"""Keys of ADK's event; it ignores others, unlike those of what is inside."""
ADKS_ACTIONS = {
    *("skipSummarization", "stateDelta", "artifactDelta", "transferToAgent", "escalate"),
    *("requestedAuthConfigs", "requestedToolConfirmations", "compaction", "endOfAgent"),
    *("agentState", "rewindBeforeInvocationId", "setModelResponse", "transferReason"),
}


@pytest.mark.parametrize(
    "read",
    [
        Event.model_validate_json,
        Event.from_json,
        lambda text: Event.model_validate(json.loads(text)),
        lambda text: TypeAdapter(list[Event]).validate_json(f"[{text}]")[0],
        lambda text: Event(**json.loads(text)),
    ],
)
def test_an_event_of_adk_is_read(read) -> None:
    """EVT-3: whatever reads it, and whatever fields ADK has beside ours."""
    read_event = read(BY_ADK)
    assert read_event.id == "x"
    assert read_event.actions.state_delta == {"k": 1}
    assert read_event.actions.requested_tool_confirmations["c"].hint == "h"
    assert read_event.actions.compaction.compacted_content.parts[0].text == "s"


def test_what_is_read_from_json_is_whole() -> None:
    """Bytes are those that ADK stored, in its spelling of base64."""
    part = Event.model_validate_json(BY_ADK).parts[1]
    assert part.inline_data
    assert part.inline_data.data == b"\xff\x00>?"


def test_no_secret_of_an_event_is_kept() -> None:
    """TOL-55: ADK's events have the client's secrets in them, ours never."""
    config = Event.model_validate_json(BY_ADK).actions.requested_auth_configs["c"]
    assert config.credential_key == "one"
    assert config.raw_auth_credential
    assert config.raw_auth_credential.api_key is None


def test_what_is_written_has_no_field_that_adk_refuses() -> None:
    """ADK ignores unknown keys of an event, and refuses those of all that is in it."""
    made = compaction_event(
        session([event("user", "a"), event("me", "b")]), types.Content(parts=[])
    )
    written = json.loads(made.model_dump_json(by_alias=True))
    assert set(written) - ADKS_EVENT == {"compactedEventIds"}
    assert set(written["actions"]) == ADKS_ACTIONS
    assert set(written["actions"]["compaction"]) == {
        "startTimestamp",
        "endTimestamp",
        "compactedContent",
    }
    kept = Session(id="s", app_name="a", user_id="u", revision=7).model_dump(by_alias=True)
    assert set(kept) == {"id", "appName", "userId", "state", "events", "lastUpdateTime"}


def test_requests_are_objects() -> None:
    """Code that shows a question reads `.hint`; a dict is read as what it stands for."""
    asked = {"c": {"hint": "Pay?", "payload": {"n": 1}}}
    actions = EventActions.model_validate({"requestedToolConfirmations": asked})
    assert actions.requested_tool_confirmations["c"] == ToolConfirmation(
        hint="Pay?", payload={"n": 1}
    )
    scheme = {"type": "apiKey", "in": "header", "name": "X"}
    wanted = EventActions.model_validate({"requested_auth_configs": {"c": {"authScheme": scheme}}})
    config = wanted.requested_auth_configs["c"]
    assert isinstance(config, AuthConfig)
    short = wanted.model_dump_json(by_alias=True, exclude_defaults=True)
    assert EventActions.model_validate_json(short).requested_auth_configs == {"c": config}


def test_a_wrong_name_in_code_is_refused_as_in_adk() -> None:
    """Actions that are misspelt would do nothing, so they are an error."""
    with pytest.raises(ValidationError):
        EventActions(state_dleta={"k": 1})
    assert Event(author="a", wrong=1).author == "a"


@pytest.mark.parametrize(
    ("message", "content"),
    [
        ("hi", {"role": "user", "parts": [{"text": "hi"}]}),
        (types.Part(text="hi"), {"role": "user", "parts": [{"text": "hi"}]}),
        (["a", types.Part(text="b")], {"role": "user", "parts": [{"text": "a"}, {"text": "b"}]}),
        ({"text": "hi"}, {"role": "user", "parts": [{"text": "hi"}]}),
        ({"role": "model", "parts": []}, {"role": "model", "parts": []}),
        (types.Content(parts=[]), {"parts": []}),
        (
            types.Part(function_call=types.FunctionCall(name="f")),
            {"role": "model", "parts": [{"functionCall": {"name": "f"}}]},
        ),
    ],
)
def test_a_message_becomes_the_content(message, content) -> None:
    """As google-genai takes contents; `.message` reads and writes it again."""
    whole = types.Content.model_validate(content)
    made = Event(author="a", message=message)
    assert made.content == whole
    assert made.message == whole
    later = Event(author="a")
    later.message = message
    assert later.content == whole
    later.message = None
    assert later.content is None


def test_a_message_beside_a_content_is_refused() -> None:
    """One of the two would be lost."""
    with pytest.raises(ValidationError, match="either 'message' or 'content'"):
        Event(author="a", message="x", content=types.Content(parts=[]))


@pytest.mark.parametrize("actions", [None, EventActions(escalate=True), {"escalate": True}])
def test_state_becomes_the_state_delta(actions) -> None:
    """Other actions stay."""
    made = Event(author="a", state={"k": 1}, actions=actions or {})
    assert made.actions == EventActions(state_delta={"k": 1}, escalate=actions and True)


def test_new_ids_differ() -> None:
    """For events that are made and stored outside of a run."""
    assert Event.new_id() != Event.new_id()
