"""The tool that adds examples to the system instruction."""

import json
from collections.abc import Iterator

from google.genai import types

from durable_adk.calling import call
from durable_adk.context.activity import ToolContext
from durable_adk.examples.base_example_provider import BaseExampleProvider
from durable_adk.examples.example import Example
from durable_adk.models.llm_request import LlmRequest
from durable_adk.tools.base_tool import BaseTool

_INTRODUCTION = "These examples show how to answer a user, and how to use the tools for it."


class ExampleTool(BaseTool):
    """Adds examples to the system instruction of each request; models do not call it (TOL-27)."""

    def __init__(self, examples: list[Example] | BaseExampleProvider) -> None:
        """Initialize the tool.

        Args:
            examples: A fixed list, or a provider that receives the text of the message that
                started the invocation.
        """
        super().__init__(name="example_tool", description="Shows the model examples.")
        self.examples = examples

    async def process_llm_request(
        self, *, tool_context: ToolContext, llm_request: LlmRequest
    ) -> None:
        """Add the examples; for a message without text there are none (as in ADK)."""
        parts = (tool_context.user_content and tool_context.user_content.parts) or []
        if not parts or not parts[0].text:
            return
        examples = self.examples
        if isinstance(examples, BaseExampleProvider):
            examples = await call(examples.get_examples, parts[0].text)
        if examples:
            llm_request.append_instructions([_instruction(examples)])


def _instruction(examples: list[Example]) -> str:
    lines = ["<examples>", _INTRODUCTION]
    for number, example in enumerate(examples, 1):
        lines += [f'<example number="{number}">', *_turns(example), "</example>"]
    return "\n".join([*lines, "</examples>"])


def _turns(example: Example) -> Iterator[str]:
    for role, content in [("user", example.input), *((c.role, c) for c in example.output)]:
        for part in content.parts or []:
            if text := _text(part):
                yield f"[{role or 'model'}] {text}"


def _text(part: types.Part) -> str | None:
    """Return a part as text; arguments and responses as JSON, which models understand."""
    if part.function_call:
        name, args = part.function_call.name, part.function_call.args or {}
        return f"calls {name} with {json.dumps(args, ensure_ascii=False)}"
    if part.function_response:
        name, response = part.function_response.name, part.function_response.response or {}
        return f"{name} returns {json.dumps(response, ensure_ascii=False)}"
    return part.text
