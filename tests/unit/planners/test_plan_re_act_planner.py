"""What is plan and what is answer."""

import pytest
from google.genai import types

from durable_adk.planners import PlanReActPlanner


def text(words: str, **fields) -> types.Part:
    return types.Part(text=words, **fields)


def call(name: str) -> types.Part:
    return types.Part(function_call=types.FunctionCall(name=name, args={}))


def processed(*parts: types.Part) -> list[str] | None:
    """The parts in short: answers as they are, thoughts in braces, calls in angle brackets."""
    result = PlanReActPlanner().process_planning_response(None, list(parts))
    return None if result is None else list(map(_short, result))


def _short(part: types.Part) -> str:
    if part.function_call:
        return f"<{part.function_call.name}>"
    if part.text is None:
        return "other"
    return f"{{{part.text}}}" if part.thought else part.text


@pytest.mark.parametrize(
    ("parts", "shown"),
    [
        ([text("hello")], ["hello"]),
        ([text("/*PLANNING*/ a b")], ["{ a b}"]),
        (
            [text("/*PLANNING*/ a\n/*REASONING*/ r\n/*FINAL_ANSWER*/ the end")],
            ["{ a\n r\n}", " the end"],
        ),
        ([text("/*FINAL_ANSWER*/ the end")], [" the end"]),
        (
            [text("/*PLANNING*/x /*FINAL_ANSWER*/ one /*FINAL_ANSWER*/ two")],
            ["{x /*FINAL_ANSWER*/ one }", " two"],
        ),
        (
            [text("/*PLANNING*/x"), text("/*ACTION*/ doing"), call("f"), call("g"), text("after")],
            ["{x}", "{ doing}", "<f>", "<g>"],
        ),
        ([call("f"), text("after"), call("g")], ["<f>"]),
        ([text("intro"), call("f"), text("after")], ["intro", "<f>"]),
        ([text("/*ACTION*/"), call(""), text("z")], ["{}", "z"]),
        ([text("/*REPLANNING*/ q"), text("untagged")], ["{ q}", "untagged"]),
        ([text("native", thought=True), text("answer")], ["{native}", "answer"]),
        ([text("/*PLANNING*/ a /*FINAL_ANSWER*/")], ["{ a }"]),
        ([text("/*FINAL_ANSWER*/")], ["{}"]),
        ([text("/*FINAL_ANSWER*/\n")], ["{}"]),
        ([types.Part.from_bytes(data=b"x", mime_type="image/png"), text("x")], ["other", "x"]),
        ([types.Part.from_executable_code(code="1", language="PYTHON"), text("t")], ["other", "t"]),
    ],
)
def test_only_the_final_answer_is_text(parts: list[types.Part], shown: list[str]) -> None:
    """FLW-95, as ADK 2.13 does: plans become thoughts, the first row of calls is kept."""
    assert processed(*parts) == shown


def test_no_parts_change_nothing() -> None:
    """An empty response stays what it is."""
    assert processed() is None


def test_white_space_before_a_tag_does_not_make_a_plan_the_answer() -> None:
    """Models begin with a line break; the user must not be shown the plan for it."""
    assert processed(text("\n /*PLANNING*/ a")) == ["{\n  a}"]


def test_a_signature_stays_with_the_end_of_what_it_signed() -> None:
    """Split text carries the provider's signature once, on its last part."""
    part = text("/*PLANNING*/ a /*FINAL_ANSWER*/ b", thought_signature=b"s")
    thought, answer = PlanReActPlanner().process_planning_response(None, [part]) or []
    assert (thought.thought_signature, answer.thought_signature) == (None, b"s")


def test_the_instruction_names_every_tag() -> None:
    """FLW-95: the model gets the five tags."""
    instruction = PlanReActPlanner().build_planning_instruction(None, None)
    for tag in ("PLANNING", "REASONING", "ACTION", "REPLANNING", "FINAL_ANSWER"):
        assert f"/*{tag}*/" in instruction
