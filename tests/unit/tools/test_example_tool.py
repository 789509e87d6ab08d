"""Examples in the instruction."""

import threading
from types import SimpleNamespace

import pytest
from google.genai import types

from durable_adk.examples import BaseExampleProvider, Example
from durable_adk.models import LlmRequest
from durable_adk.tools import ExampleTool

ROLL = Example(
    input=types.UserContent("roll a d6"),
    output=[
        types.ModelContent(
            [types.Part(text="Rolling."), types.Part.from_function_call(name="roll", args={"n": 6})]
        ),
        types.UserContent(types.Part.from_function_response(name="roll", response={"got": "é"})),
        types.ModelContent("A three!"),
    ],
)


async def instruction(tool: ExampleTool, said: str | None = "hi") -> str | None:
    """The system instruction of a request with the tool."""
    request = LlmRequest()
    content = types.UserContent(said) if said else None
    context = SimpleNamespace(user_content=content)
    await tool.process_llm_request(tool_context=context, llm_request=request)
    assert request.config.tools is None
    return request.config.system_instruction


async def test_examples_are_added_in_order() -> None:
    """TOL-27: texts, calls and responses of every example, numbered, by who said them."""
    text = await instruction(ExampleTool([ROLL, ROLL]))
    assert text is not None
    shown = (
        '<example number="1">\n'
        "[user] roll a d6\n"
        "[model] Rolling.\n"
        '[model] calls roll with {"n": 6}\n'
        '[user] roll returns {"got": "é"}\n'
        "[model] A three!\n"
        "</example>"
    )
    assert shown in text
    assert shown.replace('"1"', '"2"') in text


async def test_a_provider_is_asked_with_what_the_user_said() -> None:
    """It may block: it runs in a thread."""
    asked: list[str] = []

    class Provider(BaseExampleProvider):
        def get_examples(self, query: str) -> list[Example]:
            assert threading.current_thread() is not threading.main_thread()
            asked.append(query)
            return [ROLL]

    assert "roll a d6" in str(await instruction(ExampleTool(Provider()), "what is it?"))
    assert asked == ["what is it?"]


@pytest.mark.parametrize(("tool", "said"), [(ExampleTool([ROLL]), None), (ExampleTool([]), "hi")])
async def test_nothing_to_show_adds_nothing(tool: ExampleTool, said: str | None) -> None:
    """No examples, or no words to find them by, leave the instruction alone."""
    assert await instruction(tool, said) is None
