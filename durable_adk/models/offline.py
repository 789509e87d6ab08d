"""A model that needs neither an API key nor a network."""

import json
import re
from collections.abc import AsyncGenerator, Iterator
from typing import Any, NamedTuple

from google.genai import types

from durable_adk.models._chunks import word_by_word
from durable_adk.models.base_llm import BaseLlm
from durable_adk.models.llm_request import LlmRequest, is_message
from durable_adk.models.llm_response import LlmResponse

_TOKEN = re.compile(
    r"""(?<!\w)(?P<quote>["'])(?P<text>.+?)(?P=quote)(?!\w)"""
    r"|(?P<number>-?\b(?:0|[1-9]\d{0,14})(?:\.\d{1,9})?)\b(?![\w-])"
    r"|(?P<code>\d[\w:-]+)"
    r"|(?P<name>[A-Z][\w-]+(?: [A-Z][\w-]+)*)"
    r"|(?P<end>[.;!?](?!\w)|\n|\b(?:and|then)\b)"
    r"|(?P<word>\w+)"
)
_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+")
_STOP_WORDS = frozenset({"a", "and", "find", "for", "get", "in", "is", "of", "the", "to"})
_FITS: dict[str, Any] = {"string": str, "number": int | float, "integer": int}
_REMEDY = "For real answers set GEMINI_API_KEY and give the agent model='gemini-2.5-flash'."


class OfflineModel(BaseLlm):
    """Calls the tools that the message names and reports their results; not an LLM.

    Each clause of the message (clauses end with *and*, *then* or a full stop) calls the tool whose
    name shares the most words with it. Arguments are the clause's capitalized names, numbers and
    quoted texts, in order. The model ignores instructions and does not transfer to other agents.
    It is deterministic: the same request always gets the same response.
    """

    model: str = "offline"

    @classmethod
    def supported_models(cls) -> list[str]:
        """Return the only model name."""
        return ["offline"]

    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        """Call the next tool that the user's message names, or report the tools' results."""
        response = LlmResponse(
            content=types.Content(role="model", parts=[_answer(llm_request)]),
            finish_reason=types.FinishReason.STOP,
            model_version=self.model,
        )
        for chunk in word_by_word(response) if stream else ():
            yield chunk
        yield response


class _Clause(NamedTuple):
    """A clause of a message: its words in lower case, and its possible argument values."""

    words: set[str]
    values: list[str | int | float]


def _answer(request: LlmRequest) -> types.Part:
    last = max((i for i, content in enumerate(request.contents) if is_message(content)), default=0)
    message = " ".join(part.text or "" for part in _parts(request.contents[last : last + 1]))
    turn = _parts(request.contents[last + 1 :])
    made = [part.function_call.name for part in turn if part.function_call]
    results = [part.function_response for part in turn if part.function_response]
    texts = [f"{result.name} returned {_plain(result.response)}." for result in results]
    texts += [f"{name} has not answered yet." for name in made[len(results) :]]
    tools = _declared(request)
    for tool, clause in _calls(message, tools)[len(made) :]:
        arguments, missing = _arguments(tool, clause)
        if not missing:
            return types.Part.from_function_call(name=tool.name or "", args=arguments)
        needed = ", ".join(missing)
        texts += [f"{tool.name} needs {needed}: write names with a capital letter, or in quotes."]
    offer = ", ".join(tool.name or "" for tool in tools) or "no tools"
    nothing = f"I am the offline model and not an LLM. I call tools by name, here: {offer}. "
    return types.Part(text=" ".join(texts) or nothing + _REMEDY)


def _parts(contents: list[types.Content]) -> list[types.Part]:
    return [part for content in contents for part in content.parts or []]


def _declared(request: LlmRequest) -> list[types.FunctionDeclaration]:
    """Return the tools except transfer_to_agent: two agents could transfer back and forth."""
    config: Any = request.config  # its union types refer to libraries that need not be installed
    own = [tool for tool in config.tools or () if isinstance(tool, types.Tool)]
    declared = [item for tool in own for item in tool.function_declarations or ()]
    return [item for item in declared if item.name != "transfer_to_agent"]


def _calls(
    message: str, tools: list[types.FunctionDeclaration]
) -> list[tuple[types.FunctionDeclaration, _Clause]]:
    """Match clauses to tools; a clause that names no tool is merged into the previous one."""
    calls = list[tuple[types.FunctionDeclaration, _Clause]]()
    for clause in _clauses(message):
        shared = [len((_words(tool.name or "") - _STOP_WORDS) & clause.words) for tool in tools]
        if any(shared):
            calls.append((tools[shared.index(max(shared))], clause))
        elif calls:
            calls[-1][1].values.extend(clause.values)
    return calls


def _words(text: str) -> set[str]:
    return {word.lower() for word in _WORD.findall(text)}


def _clauses(message: str) -> Iterator[_Clause]:
    clause = _Clause(set(), [])
    for token in _TOKEN.finditer(message):
        text = token["text"] or token[0]
        match token.lastgroup:
            case "end":
                yield clause
                clause = _Clause(set(), [])
            case "number":
                clause.values.append(float(text) if "." in text else int(text))
            case "word":
                clause.words.add(text.lower())
            case "name" if not clause.words:  # capitalized only because it is the first word
                clause.words.update(text.lower().split())
            case _:
                clause.values.append(text)
    yield clause


def _arguments(
    tool: types.FunctionDeclaration, clause: _Clause
) -> tuple[dict[str, Any], list[str]]:
    """Return the arguments found in the clause, and the names of missing required ones."""
    schema = tool.parameters_json_schema
    if schema is None and tool.parameters is not None:
        schema = tool.parameters.model_dump(mode="json", exclude_none=True)
    properties: dict[str, Any] = (schema or {}).get("properties") or {}
    taken = {name: _pop_fitting(inner, clause) for name, inner in properties.items()}
    arguments = {name: value for name, value in taken.items() if value is not None}
    return arguments, [
        name for name in (schema or {}).get("required") or () if name not in arguments
    ]


def _pop_fitting(schema: dict[str, Any], clause: _Clause) -> Any:
    """Remove and return the clause's first value that fits a parameter."""
    options: list[dict[str, Any]] = [schema, *(schema.get("anyOf") or ())]
    choices = [choice for option in options for choice in option.get("enum") or ()]
    if choices:
        words = clause.words | {str(value).lower() for value in clause.values}
        return next((choice for choice in choices if str(choice).lower() in words), None)
    kinds = [str(option.get("type")).lower() for option in options]
    fits = next((_FITS[kind] for kind in kinds if kind in _FITS), ())
    fitting = [value for value in clause.values if isinstance(value, fits)]
    if not fitting and fits is str:
        fitting = clause.values  # ids consist of digits, too
    if not fitting:
        return None
    clause.values.remove(value := fitting[0])
    return str(value) if fits is str else value


def _plain(response: dict[str, Any] | None) -> str:
    """Format a tool's response as text; a function's plain result is under `result`."""
    values = response or {"result": "nothing"}
    texts = {k: v if isinstance(v, str) else json.dumps(v) for k, v in values.items()}
    plain = [text if key == "result" else f"{key} {text}" for key, text in texts.items()]
    return ", ".join(plain).rstrip(".")
