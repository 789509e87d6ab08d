"""The model that needs no key."""

import json
import re
from collections.abc import AsyncGenerator, Sequence
from typing import Any, TypeAlias

from google.genai import types

from durable_adk.models import _offline_phrases as phrases
from durable_adk.models._chunks import word_by_word
from durable_adk.models._offline_arguments import structured
from durable_adk.models._offline_plan import Choice, choices, plan
from durable_adk.models.base_llm import BaseLlm
from durable_adk.models.llm_request import NOT_BY_THE_USER, SET_MODEL_RESPONSE, LlmRequest
from durable_adk.models.llm_response import LlmResponse

Done: TypeAlias = list[tuple[types.FunctionCall, dict[str, Any] | None]]

_TRANSFER = "transfer_to_agent"
_AGENT = re.compile(r"Agent name: (\S+)\s+Agent description: (.*)")


class OfflineModel(BaseLlm):
    """No LLM: a small rule-based stand-in, for trying agents and tools without a key or a network.

    It picks the tool whose name and description share most words with the message, fills the
    arguments from the message (numbers, quoted texts, names, dates, what follows *of*, *in*, *to*),
    says the result in a sentence, and says honestly when no tool fits. It follows no instructions
    and knows nothing. The same request always gets the same answer.
    """

    model: str = "offline"

    @classmethod
    def supported_models(cls) -> list[str]:
        """Its one name."""
        return ["offline"]

    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        """Call the next tool that the user's message asks for, or say what came of it."""
        response = LlmResponse(
            content=types.Content(role="model", parts=[_answer(llm_request)]),
            finish_reason=types.FinishReason.STOP,
            model_version=self.model,
        )
        for chunk in word_by_word(response) if stream else ():
            yield chunk
        yield response


def _answer(request: LlmRequest) -> types.Part:
    message, done = _turn(request.contents)
    offered = _offered(request)
    steps = plan(message, offered, _last_called(request.contents))
    made = [(call.name, call.args or {}) for call, _ in done]
    for step in steps:
        if not step.missing and (step.choice.name, step.arguments) not in made:
            return types.Part.from_function_call(name=step.choice.name, args=step.arguments)
    said = " ".join(phrases.result(call, response) for call, response in done)
    config: Any = request.config  # its union types name libraries that need not be installed
    results = [response or {} for _, response in done]
    if config.response_schema is not None:
        return types.Part(text=json.dumps(structured(config.response_schema, message, results)))
    if (schema := _answer_schema(config.tools)) is not None:
        args = structured(schema, message, results)
        return types.Part.from_function_call(name=SET_MODEL_RESPONSE, args=args)
    if said:
        return types.Part(text=said)
    if steps:
        return types.Part(text=phrases.ask_for(steps[0].choice.name, steps[0].missing))
    return types.Part(text=phrases.no_tool([choice.label for choice in offered]))


def _answer_schema(tools: Sequence[Any] | None) -> Any:
    """The parameters of the tool that takes the answer, if there is one."""
    own = [tool for tool in tools or () if isinstance(tool, types.Tool)]
    declared = (item for tool in own for item in tool.function_declarations or ())
    answers = (item for item in declared if item.name == SET_MODEL_RESPONSE)
    return next((item.parameters_json_schema for item in answers), None)


def _offered(request: LlmRequest) -> list[Choice]:
    """The tools, and instead of the one that hands over, each agent it may hand over to."""
    config: Any = request.config
    offered = [choice for choice in choices(config.tools) if choice.name != SET_MODEL_RESPONSE]
    tools = [choice for choice in offered if choice.name != _TRANSFER]
    # Once per message: two agents that each find the other fitter would go on for ever.
    if len(tools) < len(offered) and not _was_handed_over(request.contents):
        agents = _AGENT.findall(_instruction(config.system_instruction))
        tools += [Choice(_TRANSFER, text, fixed={"agent_name": name}) for name, text in agents]
    return tools


def _turn(contents: Sequence[types.Content]) -> tuple[str, Done]:
    """The user's last message, and the calls made since with their responses."""
    last = _last_message(contents)
    message = _text(contents[last]) if contents else ""
    if last > 1 and phrases.is_question(_text(contents[last - 1])):
        message = f"{_text(contents[last - 2])} {message}"  # the answer to what was missing
    parts = [part for content in contents[last + 1 :] for part in content.parts or []]
    responses = [part.function_response for part in parts if part.function_response]
    done: Done = []
    for call in [part.function_call for part in parts if part.function_call]:
        match = next((r for r in responses if (r.id, r.name) == (call.id, call.name)), None)
        if match is not None:
            responses.remove(match)
        done.append((call, match.response if match else None))
    return message, done


def _last_called(contents: Sequence[types.Content]) -> str | None:
    parts = [part for content in reversed(contents) for part in content.parts or []]
    return next((part.function_call.name for part in parts if part.function_call), None)


def _last_message(contents: Sequence[types.Content]) -> int:
    """The index of the user's last message; failing that, of what another agent said last."""
    texts = {i: _text(content) for i, content in enumerate(contents) if _is_said(content)}
    own = [i for i, text in texts.items() if text and not text.startswith(NOT_BY_THE_USER)]
    return max(own or [i for i, text in texts.items() if text], default=0)


def _is_said(content: types.Content) -> bool:
    """Whether a person or another agent said it; text beside a tool's response is the tool's."""
    answers = any(part.function_response for part in content.parts or [])
    return content.role == "user" and not answers


def _was_handed_over(contents: Sequence[types.Content]) -> bool:
    """Whether the message came here from another agent, whose call is quoted as text."""
    return any(_TRANSFER in _text(content) for content in contents[_last_message(contents) + 1 :])


def _text(content: types.Content) -> str:
    return " ".join(part.text for part in content.parts or [] if part.text)


def _instruction(instruction: Any) -> str:
    match instruction:
        case None:
            return ""
        case str():
            return instruction
        case types.Content():
            return _text(instruction)
        case list():
            return "\n".join(_instruction(piece) for piece in instruction)  # pyright: ignore[reportUnknownVariableType]: google-genai's union
        case _:
            return getattr(instruction, "text", None) or ""
