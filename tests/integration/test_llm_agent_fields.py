"""What an LlmAgent's fields make of requests and answers."""

from typing import Any

import pytest
from google.genai import types
from pydantic import BaseModel

from durable_adk.agents import LlmAgent, SequentialAgent
from durable_adk.apps import App, ResumabilityConfig
from durable_adk.errors import OutputSchemaError
from durable_adk.events import Event
from durable_adk.examples import Example
from durable_adk.models import LlmRequest, LlmResponse, ScriptedModel
from durable_adk.runners import Runner
from durable_adk.tools import (
    AgentTool,
    BaseTool,
    ExampleTool,
    LongRunningFunctionTool,
    ToolContext,
    google_search,
    url_context,
)
from tests.conftest import MakeRunner
from tests.support.scripts import USER, call, calls, ensure_session, gist, send, state, stored


class Answer(BaseModel):
    """What an agent is to answer."""

    n: int
    unit: str = "km"
    note: str | None = None


def look(where: str) -> str:
    """Look somewhere."""
    return f"nothing {where}"


def agent(*replies: Any, name: str = "a", **fields: Any) -> LlmAgent:
    """An agent with a scripted model."""
    return LlmAgent(name=name, model=ScriptedModel(replies=replies), **fields)


def requests(of: LlmAgent) -> list[LlmRequest]:
    """What the agent's model was asked."""
    assert isinstance(of.model, ScriptedModel)
    return of.model.requests


def instruction(request: LlmRequest) -> str:
    """The system instruction."""
    return str(request.config.system_instruction)


def shown(request: LlmRequest) -> list[str]:
    """The contents, each in a few words."""
    return [_words(content) for content in request.contents]


def _words(content: types.Content) -> str:
    parts = content.parts or []
    if any(part.function_call for part in parts):
        return f"{content.role} call"
    if any(part.function_response for part in parts):
        return f"{content.role} response"
    return f"{content.role} " + "".join(part.text or f"<{part.inline_data}>" for part in parts)


def declared(request: LlmRequest) -> dict[str, Any]:
    """The parameters of the declared functions by name."""
    tools: Any = request.config.tools or []
    return {
        item.name: item.parameters_json_schema
        for tool in tools
        for item in tool.function_declarations or []
    }


async def reply(runner: Runner, **response: Any) -> list[Event]:
    """What comes of an answer to the only call that waits."""
    (pending,) = await runner.pending(**USER)
    part = types.FunctionResponse(id=pending.call_id, name=pending.name, response=response)
    message = types.Content(role="user", parts=[types.Part(function_response=part)])
    return [event async for event in runner.run_async(**USER, new_message=message)]


# ----- output_schema


async def test_with_tools_the_answer_is_a_call_and_then_a_text(make_runner: MakeRunner) -> None:
    """AGT-19: the call is answered like any, and the answer is the agent's last text, as JSON."""
    a = agent(
        call("look", where="up"),
        call("set_model_response", n="3"),
        "never",
        tools=[look],
        output_schema=Answer,
        output_key="answer",
    )
    runner = await make_runner(a)
    events = await send(runner)
    assert [gist(event) for event in events] == [
        "a call look",
        "a response look",
        "a call set_model_response",
        "a response set_model_response",
        'a text {"n": 3, "unit": "km"}',
    ]
    value = {"n": 3, "unit": "km"}
    assert events[3].get_function_responses()[0].response == value
    assert events[3].actions.set_model_response == value
    assert events[4].is_final_response()
    assert events[4].actions.state_delta == {"answer": value}
    assert await state(runner) == {"answer": value}
    assert (await stored(runner))[1:] == events
    first, second = requests(a)
    assert set(declared(first)) == {"look", "set_model_response"}
    assert declared(first)["set_model_response"]["required"] == ["n"]
    assert first.config.response_schema is None
    assert "set_model_response" in instruction(second)


@pytest.mark.parametrize("args", [{}, {"n": "many"}])
async def test_an_answer_that_does_not_fit_goes_back_to_the_model(
    make_runner: MakeRunner, args: dict[str, Any]
) -> None:
    """AGT-19: as an error response, so the model can correct it."""
    a = agent(
        call("set_model_response", **args),
        call("set_model_response", n=1),
        tools=[look],
        output_schema=Answer,
    )
    events = await send(await make_runner(a))
    response = events[1].get_function_responses()[0].response or {}
    assert "does not match output_schema Answer: n:" in response["error"]
    assert events[1].actions.set_model_response is None
    assert events[-1].text == '{"n": 1, "unit": "km"}'


async def test_an_answer_beside_other_calls_counts(make_runner: MakeRunner) -> None:
    """AGT-19, FLW-43: the turn's calls all run, their responses are one event, then the text."""
    turn = calls(("set_model_response", {"n": 1}), ("look", {"where": "up"}))
    a = agent(turn, "never", tools=[look], output_schema=Answer)
    events = await send(await make_runner(a))
    assert [gist(event) for event in events] == [
        "a call set_model_response,look",
        "a response set_model_response,look",
        'a text {"n": 1, "unit": "km"}',
    ]


async def test_the_later_of_two_answers_stands_unmixed(make_runner: MakeRunner) -> None:
    """FLW-45: an answer is no state whose keys could be merged."""
    turn = calls(
        ("set_model_response", {"n": 1, "note": "first"}), ("set_model_response", {"n": 2})
    )
    a = agent(turn, tools=[look], output_schema=Answer)
    events = await send(await make_runner(a))
    assert events[-1].text == '{"n": 2, "unit": "km"}'


async def test_an_answer_as_text_is_taken_too(make_runner: MakeRunner) -> None:
    """AGT-19, AGT-22: if it fits; if not, only a run that is to store it fails."""
    fitting = agent('{"n": 4}', tools=[look], output_schema=Answer, output_key="answer")
    runner = await make_runner(fitting)
    await send(runner)
    assert await state(runner) == {"answer": {"n": 4, "unit": "km"}}
    other = agent("four", tools=[look], output_schema=Answer, output_key="answer")
    runner = await make_runner(other)
    with pytest.raises(OutputSchemaError):
        await send(runner)


@pytest.mark.parametrize("tools", [[], [look]])
async def test_an_unfit_answer_without_output_key_is_passed_on(
    make_runner: MakeRunner, tools: list[Any]
) -> None:
    """AGT-22: as in ADK; the rest of a sequence runs too."""
    first = agent("four", tools=tools, output_schema=Answer)
    runner = await make_runner(
        SequentialAgent(name="s", sub_agents=[first, agent("then", name="b")])
    )
    assert [gist(event) for event in await send(runner)] == ["a text four", "b text then"]


async def test_a_cut_off_answer_is_stored(make_runner: MakeRunner) -> None:
    """AGT-21: what the model said before its limit is its output, as in ADK."""
    half = LlmResponse(
        content=types.Content(role="model", parts=[types.Part(text="half")]),
        error_code="MAX_TOKENS",
        finish_reason=types.FinishReason.MAX_TOKENS,
    )
    runner = await make_runner(agent(half, output_key="out"))
    await send(runner)
    assert await state(runner) == {"out": "half"}


async def test_an_object_as_result_is_under_result(make_runner: MakeRunner) -> None:
    """FLW-49: models and dataclasses are no dicts; a callback gets the object itself."""
    seen: list[Any] = []

    def measure() -> Answer:
        """Measure something."""
        return Answer(n=1)

    def after(tool: BaseTool, args: Any, tool_context: ToolContext, tool_response: Any) -> None:
        del tool, args, tool_context
        seen.append(tool_response)

    a = agent(call("measure"), "done", tools=[measure], after_tool_callback=after)
    events = await send(await make_runner(a))
    responses = [one.response for event in events for one in event.get_function_responses()]
    assert responses == [{"result": {"n": 1, "unit": "km"}}]
    assert seen == [Answer(n=1)]


async def test_a_call_without_arguments_stays_as_it_was(make_runner: MakeRunner) -> None:
    """FLW-40: the event has what the model sent."""

    def ping() -> str:
        """Ping."""
        return "pong"

    said = types.Part(function_call=types.FunctionCall(name="ping"))
    events = await send(await make_runner(agent(said, "done", tools=[ping])))
    assert [one.args for event in events for one in event.get_function_calls()] == [None]
    assert gist(events[-1]) == "a text done"


async def test_built_in_tools_come_first(make_runner: MakeRunner) -> None:
    """FLW-2: as in ADK, so that prompts are the same."""
    a = agent("hi", tools=[look], output_schema=Answer, sub_agents=[agent("x", name="b")])
    await send(await make_runner(a))
    assert list(declared(requests(a)[0])) == ["set_model_response", "transfer_to_agent", "look"]


async def test_an_agent_that_may_hand_over_answers_by_a_call(make_runner: MakeRunner) -> None:
    """AGT-19: handing over is a function too, and providers refuse a schema beside functions."""
    a = agent(
        call("set_model_response", n=1), output_schema=Answer, sub_agents=[agent("x", name="b")]
    )
    events = await send(await make_runner(a))
    assert events[-1].text == '{"n": 1, "unit": "km"}'
    assert requests(a)[0].config.response_schema is None


async def test_without_tools_the_provider_is_given_the_schema(make_runner: MakeRunner) -> None:
    """AGT-19: any type that an answer can be checked against, not models alone."""
    a = agent('[{"n": 1}]', output_schema=list[Answer], output_key="answers")
    runner = await make_runner(a)
    await send(runner)
    (request,) = requests(a)
    assert request.config.response_schema == list[Answer]
    assert request.config.response_mime_type == "application/json"
    assert declared(request) == {}
    assert await state(runner) == {"answers": [{"n": 1, "unit": "km"}]}


async def test_a_list_is_an_answer_by_call_too(make_runner: MakeRunner) -> None:
    """AGT-19, FLW-49: arguments are an object, so the list is one argument."""
    a = agent(
        call("set_model_response", items=[{"n": 1}]),
        tools=[look],
        output_schema=list[Answer],
        output_key="answers",
    )
    runner = await make_runner(a)
    events = await send(runner)
    assert events[1].get_function_responses()[0].response == {"result": [{"n": 1, "unit": "km"}]}
    assert events[-1].text == '[{"n": 1, "unit": "km"}]'
    assert await state(runner) == {"answers": [{"n": 1, "unit": "km"}]}


async def test_an_agent_as_a_tool_answers_by_its_own_call(make_runner: MakeRunner) -> None:
    """TOL-21, AGT-19: the caller's tool result is the answer's value."""
    expert = agent(
        call("set_model_response", n=7), name="expert", tools=[look], output_schema=Answer
    )
    root = agent(call("expert", request="how far?"), "7 km", tools=[AgentTool(expert)])
    events = await send(await make_runner(root))
    response = events[1].get_function_responses()[0].response
    assert response == {"n": 7, "unit": "km"}


@pytest.mark.parametrize("schema", ["Answer", 42])
def test_a_schema_that_checks_nothing_is_refused(schema: Any) -> None:
    """AGT-19: when the agent is made, not when it has answered."""
    with pytest.raises(ValueError, match="cannot be used to check output"):
        agent(output_schema=schema)


# ----- instructions


async def test_a_static_instruction_is_the_system_instruction(make_runner: MakeRunner) -> None:
    """AGT-16: verbatim and first; the dynamic one is in the contents, before the user's words."""
    a = agent(
        call("look", where="up"),
        "ok",
        tools=[look],
        static_instruction="Static {x}.",
        instruction="Dynamic {x}.",
        description="d",
    )
    runner = await make_runner(a)
    await ensure_session(runner)
    await send(runner, state_delta={"x": 1})
    first, second = requests(a)
    assert instruction(first).startswith("Static {x}.\n\nYou are an agent.")
    assert "Dynamic" not in instruction(first)
    assert instruction(first) == instruction(second)
    assert first.contents[0].parts is not None
    assert (first.contents[0].parts[0].text or "").endswith("\n\nDynamic 1.")
    assert shown(first)[1:] == ["user hello"]
    assert shown(second)[:3] == ["user hello", "model call", "user response"]
    assert shown(second)[3].endswith("Dynamic 1.")


async def test_files_of_a_static_instruction_come_first(make_runner: MakeRunner) -> None:
    """AGT-16: a system instruction holds text only, so a file is a content before all others."""
    image = types.Part.from_bytes(data=b"i", mime_type="image/png")
    a = agent("ok", static_instruction=types.Content(parts=[types.Part(text="See:"), image]))
    await send(await make_runner(a))
    (request,) = requests(a)
    assert instruction(request).startswith("See:\n\n[file 1,")
    assert request.contents[0].parts is not None
    assert request.contents[0].parts[1] == image
    assert shown(request)[1:] == ["user hello"]


# ----- what may not be set, and what may


def test_modes_are_refused_where_they_mean_nothing() -> None:
    """AGT-10, GR-170: with what to do instead."""
    root = LlmAgent(name="root", mode="single_turn")
    with pytest.raises(ValueError, match="must have mode='chat' or 'task'"):
        App(name="app", root_agent=root)
    within = SequentialAgent(name="steps", sub_agents=[LlmAgent(name="one", mode="task")])
    with pytest.raises(ValueError, match="sub-agent of an LlmAgent, or a node of a Workflow"):
        App(name="app", root_agent=within)
    assert agent(mode="chat").mode == "chat"


async def test_generation_settings_reach_the_model(make_runner: MakeRunner) -> None:
    """AGT-18: thinking among them; each request has a copy of its own."""
    config = types.GenerateContentConfig(
        temperature=0.5, thinking_config=types.ThinkingConfig(thinking_budget=9)
    )
    a = agent("ok", generate_content_config=config, instruction="Be brief.")
    await send(await make_runner(a))
    (request,) = requests(a)
    assert request.config.temperature == 0.5
    assert request.config.thinking_config == types.ThinkingConfig(thinking_budget=9)
    assert config.system_instruction is None


# ----- tools


class Safe(BaseTool):
    """A tool that is no function, and must be approved."""

    def __init__(self) -> None:
        super().__init__(name="open_safe", description="Opens the safe.")
        self.runs = 0

    async def check_require_confirmation(self, args: dict[str, Any], tool_context: Any) -> bool:
        return args.get("amount", 0) > 1

    async def run_async(self, *, args: dict[str, Any], tool_context: Any) -> Any:
        self.runs += 1
        return "open"


@pytest.mark.parametrize("confirmed", [True, False])
async def test_every_tool_waits_for_the_yes_it_needs(
    make_runner: MakeRunner, *, confirmed: bool
) -> None:
    """TOL-60 to TOL-63: also one that is not made of a function, with the same words."""
    safe = Safe()
    runner = await make_runner(agent(call("open_safe", amount=5), "so be it", tools=[safe]))
    events = await send(runner)
    assert [gist(event) for event in events] == [
        "a call open_safe",
        "a call adk_request_confirmation",
        "a response open_safe",
    ]
    asked = "This tool call requires confirmation, please approve or reject."
    assert events[2].get_function_responses()[0].response == {"error": asked}
    assert safe.runs == 0
    after = await reply(runner, confirmed=confirmed)
    assert [gist(event) for event in after] == ["a response open_safe", "a text so be it"]
    response = after[0].get_function_responses()[0].response
    rejected = {"error": "This tool call is rejected."}
    assert response == ({"result": "open"} if confirmed else rejected)
    assert safe.runs == int(confirmed)


class Guarded(AgentTool):
    """An agent that is not asked without a yes."""

    async def check_require_confirmation(self, args: dict[str, Any], tool_context: Any) -> bool:
        return True


@pytest.mark.parametrize("confirmed", [True, False])
async def test_an_agent_is_not_asked_before_the_yes(
    make_runner: MakeRunner, *, confirmed: bool
) -> None:
    """TOL-60, TOL-21: its run is what has to be approved."""
    expert = agent("forty-two", name="expert")
    root = agent(call("expert", request="q"), "so be it", tools=[Guarded(expert)])
    runner = await make_runner(root)
    await send(runner)
    assert requests(expert) == []
    after = await reply(runner, confirmed=confirmed)
    assert len(requests(expert)) == int(confirmed)
    assert gist(after[-1]) == "a text so be it"


async def test_the_provider_s_tools_are_in_the_request(make_runner: MakeRunner) -> None:
    """TOL-27: they are not declared as functions, and examples are part of the instruction."""
    example = Example(
        input=types.UserContent("1+1"), output=[types.Content(role="model", parts=[
            types.Part(text="2")])]
    )  # fmt: skip
    a = agent("ok", tools=[google_search, url_context, ExampleTool([example])])
    assert isinstance(a.model, ScriptedModel)
    a.model.model = "gemini-2.5-flash"
    await send(await make_runner(a))
    (request,) = requests(a)
    assert request.config.tools == [
        types.Tool(google_search=types.GoogleSearch()),
        types.Tool(url_context=types.UrlContext()),
    ]
    assert "[user] 1+1" in instruction(request)
    assert "[model] 2" in instruction(request)


async def test_a_provider_s_tool_beside_functions_goes_into_an_agent(
    make_runner: MakeRunner,
) -> None:
    """TOL-27, TOL-21: Gemini takes the one or the other; an agent that searches is a function."""
    searcher = agent("found", name="searcher", tools=[google_search])
    assert isinstance(searcher.model, ScriptedModel)
    searcher.model.model = "gemini-2.5-flash"
    root = agent(call("searcher", request="q"), "ok", tools=[AgentTool(searcher), look])
    await send(await make_runner(root))
    assert set(declared(requests(root)[0])) == {"searcher", "look"}
    (request,) = requests(searcher)
    assert request.config.tools == [types.Tool(google_search=types.GoogleSearch())]


async def test_a_resumable_app_waits_with_a_first_result(make_runner: MakeRunner) -> None:
    """RES-1, TOL-42: the model is asked when the last result is there, and not before."""

    def ticket(item: str) -> dict[str, str]:
        """Open a ticket."""
        return {"status": "pending"}

    a = agent(call("ticket", item="x"), "it is closed", tools=[LongRunningFunctionTool(ticket)])
    runner = await make_runner(a, resumability_config=ResumabilityConfig(is_resumable=True))
    events = await send(runner)
    assert [gist(event) for event in events] == ["a call ticket", "a response ticket"]
    assert len(requests(a)) == 1
    after = await reply(runner, status="closed")
    assert [gist(event) for event in after] == ["a text it is closed"]
    assert after[0].invocation_id == events[0].invocation_id


async def test_of_two_tools_of_a_name_the_last_is_declared(make_runner: MakeRunner) -> None:
    """TOL-2: once, and it is the one that runs; providers refuse two of a name."""

    def other(where: str, how: str = "") -> str:
        """Look elsewhere."""
        return f"other {where}{how}"

    other.__name__ = "look"
    a = agent(call("look", where="up"), "done", tools=[look, other])
    events = await send(await make_runner(a))
    assert {"how", "where"} == set(declared(requests(a)[0])["look"]["properties"])
    assert events[1].get_function_responses()[0].response == {"result": "other up"}


@pytest.mark.parametrize("hooked", [False, True])
async def test_files_in_a_result_are_parts_of_the_response(
    make_runner: MakeRunner, *, hooked: bool
) -> None:
    """FLW-49: as in ADK, the model sees them as files and not as text in a dict."""
    image = types.Part.from_bytes(data=b"png", mime_type="image/png")

    def draw() -> dict[str, Any]:
        """Draw something."""
        return {"size": 3, "drawing": image, "others": [image, "text"]}

    def after(tool: BaseTool, args: Any, tool_context: ToolContext, tool_response: Any) -> None:
        del tool, args, tool_context
        assert tool_response["drawing"] == image

    callback = after if hooked else None
    a = agent(call("draw"), "done", tools=[draw], after_tool_callback=callback)
    runner = await make_runner(a)
    await send(runner)
    (response,) = (one for event in await stored(runner) for one in event.get_function_responses())
    assert response.response == {"size": 3, "others": ["text"]}
    data = [part.inline_data and part.inline_data.data for part in response.parts or []]
    assert data == [b"png", b"png"]
    (sent,) = requests(a)[1].contents[-1].parts or []
    assert sent.function_response
    assert len(sent.function_response.parts or []) == 2
