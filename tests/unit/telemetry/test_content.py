"""What was said, on its way into spans."""

import pytest
from google.genai import types

from durable_adk.telemetry.content import (
    MAX_CHARACTERS,
    VARIABLE,
    captured,
    messages,
    redact_with,
)


@pytest.fixture
def _on(monkeypatch):
    monkeypatch.setenv(VARIABLE, "true")
    yield
    redact_with(None)


@pytest.mark.parametrize("value", [None, "false", "0", "no_content", "event_only", "nonsense"])
def test_nothing_is_told_unless_it_is_switched_on(monkeypatch, value):
    """S8: off by default, and by everything but a yes."""
    monkeypatch.delenv(VARIABLE, raising=False)
    if value is not None:
        monkeypatch.setenv(VARIABLE, value)
    assert captured("a", "secret") == {}


@pytest.mark.usefixtures("_on")
def test_what_is_told_is_bounded():
    """S8: a text of megabytes is cut."""
    assert captured("a", "x" * 1_000_000) == {"a": "x" * MAX_CHARACTERS}


@pytest.mark.usefixtures("_on")
def test_the_hook_sees_all_of_it_before_it_is_cut():
    """S8: no half of a secret is left over at the cut."""
    secret = "4711" * 10
    redact_with(lambda _, text: text.replace(secret, "*"))
    text = "x" * (MAX_CHARACTERS - 20) + secret
    assert "4711" not in captured("a", text)["a"]


@pytest.mark.usefixtures("_on")
def test_a_hook_that_raises_or_declines_lets_nothing_out(caplog):
    """S8: what could not be redacted is not exported, and neither is what the error says."""
    redact_with(lambda *_: 1 / 0)
    assert captured("a", "secret") == {}
    assert "telemetry.redaction_failed" in caplog.text
    assert "secret" not in caplog.text
    redact_with(lambda *_: None)
    assert captured("a", "secret") == {}


def test_messages_have_the_form_of_the_conventions():
    """D17: roles, text, thoughts, calls and responses; files only as that there was one."""
    parts = [
        types.Part(text="hm", thought=True),
        types.Part(text="hello"),
        types.Part(function_call=types.FunctionCall(id="1", name="f", args={"x": 1})),
        types.Part(inline_data=types.Blob(data=b"secret", mime_type="image/png")),
    ]
    answer = types.FunctionResponse(id="1", name="f", response={"y": 2})
    told = messages(
        [
            types.Content(role="model", parts=parts),
            types.Content(role="user", parts=[types.Part(function_response=answer)]),
        ]
    )
    assert told == [
        {
            "role": "assistant",
            "parts": [
                {"type": "reasoning", "content": "hm"},
                {"type": "text", "content": "hello"},
                {"type": "tool_call", "id": "1", "name": "f", "arguments": {"x": 1}},
                {"type": "blob"},
            ],
        },
        {
            "role": "user",
            "parts": [{"type": "tool_call_response", "id": "1", "response": {"y": 2}}],
        },
    ]
