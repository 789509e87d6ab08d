"""Instruction templates."""

import pytest
from google.genai import types
from hypothesis import given, strategies as st

from durable_adk.agents.instructions import render
from durable_adk.errors import InstructionError, RunError

STATE = {
    "x": "X",
    "none": None,
    "flag": True,
    "cart": {"a": 1},
    "user:x": "UX",
    "app:y": "AY",
    "temp:z": "TZ",
    "nested": "{x}",
}


async def load(name: str) -> types.Part | None:
    return {
        "text": types.Part(text="as text"),
        "a b.txt": types.Part.from_bytes(data="ä".encode(), mime_type="text/plain"),
        "image": types.Part.from_bytes(data=b"\x89PNG\xff", mime_type="image/png"),
    }.get(name)


@pytest.mark.parametrize(
    ("template", "text"),
    [
        ("a{x}b{x}", "aXbX"),
        ("{ x }", "X"),
        ("{x?}{x? }", "XX"),
        ("{{x}} {{{x}}}", "X X"),
        ("{x}} {{x}", "X X"),
        ("{user:x} {app:y} {temp:z}", "UX AY TZ"),
        ("{flag} {cart}", "True {'a': 1}"),
        ("<{none}{none?}>", "<>"),
        ("<{gone?}{user:gone?}{temp:gone?}>", "<>"),
        ("{nested}", "{x}"),
    ],
)
async def test_names_are_substituted(template, text):
    """Every form of a placeholder becomes the value as text, once (AGT-13)."""
    assert await render(template, STATE, agent="a") == text


@pytest.mark.parametrize(
    "template",
    [
        '{"k": "v", "n": {"x": [1]}}',
        "{}",
        "{ }",
        "{?}",
        "{a b}",
        "{1x}",
        "{x.y}",
        "{x ?}",
        "{x??}",
        "{other:x}",
        "{user:}",
        "{user: x}",
        "${x}",
        "\\{x}",
        "${{x}}",
    ],
)
async def test_other_braces_are_left_alone(template):
    """JSON and escaped placeholders come out as they went in (AGT-13, TRAP-38)."""
    assert await render(template, STATE, agent="a") == template


@pytest.mark.parametrize("name", ["gone", "user:gone", "temp:x"])
async def test_missing_variable_ends_the_run(name):
    """A required name without value is an error that no retry can mend (TRAP-38)."""
    with pytest.raises(InstructionError) as caught:
        await render(f"a {{{name}}} b", STATE, agent="a")
    assert str(caught.value) == f"Context variable not found: `{name}` in agent 'a'."
    assert isinstance(caught.value, KeyError)
    assert isinstance(caught.value, RunError)


async def test_artifacts_are_inlined_as_text():
    """Text artifacts of either form become their text, a missing optional one nothing."""
    template = "{artifact.text}|{artifact.a b.txt}|{artifact.text?}|{artifact.gone?}"
    assert await render(template, {}, load_artifact=load, agent="a") == "as text|ä|as text|"


@pytest.mark.parametrize(
    ("template", "message"),
    [
        ("{artifact.gone}", "Artifact not found: `gone` in agent 'a'."),
        ("{artifact.image}", "Artifact `image` is not text"),
        ("{artifact.image?}", "Artifact `image` is not text"),
    ],
)
async def test_artifact_without_text_ends_the_run(template, message):
    """Missing, or of a kind that has no text: never its repr in the prompt (AGT-13)."""
    with pytest.raises(InstructionError, match=message):
        await render(template, {}, load_artifact=load, agent="a")


async def test_artifact_without_service_is_a_value_error():
    """ADK raises ValueError here, so `except ValueError` works; it ends the run all the same."""
    with pytest.raises(InstructionError, match="no artifact service") as caught:
        await render("{artifact.text?}", {}, agent="a")
    assert isinstance(caught.value, ValueError)


_PLAIN = st.text(st.characters(exclude_characters="{}$\\"))


@given(before=_PLAIN, value=st.text(), after=_PLAIN)
async def test_values_arrive_verbatim(before, value, after):
    """Whatever a value holds, braces and placeholders included, it is the text in its place."""
    rendered = await render(f"{before}{{x}}{after}{{gone?}}", {"x": value}, agent="a")
    assert rendered == before + value + after
