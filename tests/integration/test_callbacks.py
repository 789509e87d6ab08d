"""Callbacks: when they run, what they change, which event carries it (STA-16)."""

from typing import Any, cast

import pytest
from google.genai import types

from durable_adk.agents import BaseAgent, LlmAgent, RunConfig
from durable_adk.errors import CallbackError, ModelError
from durable_adk.events import Event
from durable_adk.models import LlmRequest, LlmResponse, ScriptedModel
from durable_adk.tools import BaseTool
from tests.conftest import MakeRunner
from tests.support.scripts import USER, call, calls, gist, send, state, stored


def text(value: str) -> types.Content:
    """A model's text."""
    return types.Content(role="model", parts=[types.Part(text=value)])


def echo(word: str, tool_context: Any) -> str:
    """Return the word."""
    tool_context.state["tool"] = word
    return word


def noting(key: str, *, is_async: bool = False) -> Any:
    """A callback of any hook that writes one state key."""

    def note(**kwargs: Any) -> None:
        context = kwargs.get("callback_context") or kwargs["tool_context"]
        context.state[key] = True

    async def note_async(**kwargs: Any) -> None:
        note(**kwargs)

    return note_async if is_async else note


@pytest.mark.parametrize("is_async", [False, True])
async def test_changes_ride_on_the_event_of_their_step(
    make_runner: MakeRunner, *, is_async: bool
) -> None:
    """STA-16: six hooks, sync and async, and the event that carries each one's change."""
    hooks = ["before_agent", "after_agent", "before_model", "after_model", "before_tool"]
    fields = {f"{hook}_callback": noting(hook, is_async=is_async) for hook in hooks}
    model = ScriptedModel(replies=[call("echo", word="hi"), "done"])
    agent = LlmAgent(
        name="a",
        model=model,
        tools=[echo],
        output_key="answer",
        after_tool_callback=noting("after_tool", is_async=is_async),
        **fields,
    )
    runner = await make_runner(agent)
    events = await send(runner)
    assert [(gist(event), sorted(event.actions.state_delta)) for event in events] == [
        ("a delta", ["before_agent"]),
        ("a call echo", ["after_model", "before_model"]),
        ("a response echo", ["after_tool", "before_tool", "tool"]),
        ("a text done", ["after_model", "answer", "before_model"]),
        ("a delta", ["after_agent"]),
    ]
    assert set(await state(runner)) == {*hooks, "after_tool", "tool", "answer"}


async def test_an_answer_before_the_agent_stands_for_it(make_runner: MakeRunner) -> None:
    """AGT-6: the body and the after callback do not run; the answer is saved under output_key."""
    agent = LlmAgent(
        name="a",
        model=ScriptedModel(replies=["never"]),
        before_agent_callback=lambda callback_context: text("instead"),
        after_agent_callback=lambda callback_context: text("never either"),
        output_key="answer",
    )
    runner = await make_runner(agent)
    assert [gist(event) for event in await send(runner)] == ["a text instead"]
    assert await state(runner) == {"answer": "instead"}


async def test_an_answer_after_the_agent_is_an_event_more(make_runner: MakeRunner) -> None:
    """AGT-8: it does not replace what the agent said."""
    agent = LlmAgent(
        name="a",
        model=ScriptedModel(replies=["said"]),
        after_agent_callback=[lambda callback_context: None, lambda callback_context: text("more")],
    )
    assert [gist(e) for e in await send(await make_runner(agent))] == ["a text said", "a text more"]


async def test_a_response_before_the_model_stands_for_it(make_runner: MakeRunner) -> None:
    """CB-7, TRAP-35: the model is not asked, after_model not run, nothing counted."""
    called: list[str] = []

    def after(**_: Any) -> None:
        called.append("after")

    model = ScriptedModel(replies=["never"])
    agent = LlmAgent(
        name="a",
        model=model,
        before_model_callback=lambda callback_context, llm_request: LlmResponse(
            content=text("canned")
        ),
        after_model_callback=after,
    )
    events = await send(await make_runner(agent))
    assert [gist(event) for event in events] == ["a text canned"]
    assert (called, model.requests) == ([], [])


async def test_a_request_can_be_changed_and_a_response_replaced(make_runner: MakeRunner) -> None:
    """CB-6: what the model gets and what the agent says is the callbacks'."""

    def ask_politely(callback_context: Any, llm_request: LlmRequest) -> None:
        llm_request.append_instructions(["Be polite."])

    def shout(callback_context: Any, llm_response: LlmResponse) -> LlmResponse:
        assert llm_response.content is not None
        assert llm_response.content.parts is not None
        return LlmResponse(content=text(str(llm_response.content.parts[0].text).upper()))

    model = ScriptedModel(replies=["quiet"])
    agent = LlmAgent(
        name="a",
        model=model,
        instruction="Answer.",
        before_model_callback=ask_politely,
        after_model_callback=shout,
    )
    events = await send(await make_runner(agent))
    assert [gist(event) for event in events] == ["a text QUIET"]
    instruction = str(model.requests[0].config.system_instruction)
    assert instruction.startswith("Answer.\n\n")
    assert instruction.endswith("\n\nBe polite.")


class Kept(BaseTool):
    """A tool that keeps its declaration."""

    declaration = types.FunctionDeclaration(name="kept", description="As it is.")

    def _get_declaration(self) -> types.FunctionDeclaration:
        return self.declaration


@pytest.mark.parametrize("what", ["tools", "schema"])
async def test_a_changed_request_changes_no_other(make_runner: MakeRunner, what: str) -> None:
    """F12: declarations and schemas are its own, whatever tool or agent keeps them."""

    def spoil(callback_context: Any, llm_request: LlmRequest) -> None:
        if what == "schema":
            schema: Any = llm_request.config.response_schema
            shown.append([schema["description"]])
            schema["description"] = "Spoiled."
        else:
            (tool,) = cast("list[types.Tool]", llm_request.config.tools)
            declared = tool.function_declarations or []
            shown.append([one.description for one in declared])
            for one in declared:
                one.description = "Spoiled."

    shown: list[Any] = []
    agent = LlmAgent(
        name="a",
        model=ScriptedModel(replies=["{}"] * 2),
        tools=[Kept(name="kept", description=""), echo] if what == "tools" else [],
        output_schema={"type": "object", "description": "As it is."} if what == "schema" else None,
        before_model_callback=spoil,
    )
    runner = await make_runner(agent)
    for _ in range(2):
        await send(runner)
    assert shown == [["As it is.", "Return the word."] if what == "tools" else ["As it is."]] * 2


async def test_a_model_error_can_be_answered(make_runner: MakeRunner) -> None:
    """FLW-61: the run continues with what the callback says."""
    agent = LlmAgent(
        name="a",
        model=ScriptedModel(replies=[ModelError("refused")]),
        on_model_error_callback=lambda callback_context, llm_request, error: LlmResponse(
            content=text(f"sorry: {error}")
        ),
    )
    events = await send(await make_runner(agent))
    assert [gist(event) for event in events] == ["a text sorry: refused"]


async def test_what_a_callback_answers_is_not_counted(make_runner: MakeRunner) -> None:
    """CB-7, TRAP-36: one call is allowed; the first turn's answer is a callback's."""

    def first(callback_context: Any, llm_request: LlmRequest) -> LlmResponse | None:
        asked = any(content.role == "model" for content in llm_request.contents)
        return None if asked else LlmResponse(content=call("echo", word="hi"))

    agent = LlmAgent(
        name="a", model=ScriptedModel(replies=["never", "done"]), tools=[echo],
        before_model_callback=first,
    )  # fmt: skip
    runner = await make_runner(agent)
    events = await send(runner, run_config=RunConfig(max_llm_calls=1))
    assert [gist(event) for event in events] == ["a call echo", "a response echo", "a text done"]


async def test_an_empty_dict_after_the_tool_replaces_its_result(make_runner: MakeRunner) -> None:
    """CB-5, CB-9: what counts is that it is not None; the raw result is what the callback sees."""
    seen: list[Any] = []

    def after(tool: Any, args: Any, tool_context: Any, tool_response: Any) -> dict[str, Any]:
        seen.append(tool_response)
        return {}

    agent = LlmAgent(
        name="a",
        model=ScriptedModel(replies=[call("echo", word="hi"), "done"]),
        tools=[echo],
        after_tool_callback=after,
    )
    events = await send(await make_runner(agent))
    assert events[1].get_function_responses()[0].response == {}
    assert seen == ["hi"]


@pytest.mark.parametrize("answer", [{"result": "cached"}, {}])
async def test_an_answer_before_the_tool_stands_for_it(
    make_runner: MakeRunner, answer: dict[str, Any]
) -> None:
    """CB-5, CB-8: an empty dict counts too, and after_tool still sees the result."""
    seen: list[Any] = []

    def after(tool: Any, args: Any, tool_context: Any, tool_response: Any) -> None:
        seen.append(tool_response)

    agent = LlmAgent(
        name="a",
        model=ScriptedModel(replies=[call("echo", word="hi"), "done"]),
        tools=[echo],
        before_tool_callback=lambda tool, args, tool_context: answer,
        after_tool_callback=after,
    )
    runner = await make_runner(agent)
    events = await send(runner)
    assert events[1].get_function_responses()[0].response == answer
    assert seen == [answer]
    assert "tool" not in await state(runner)


async def test_arguments_can_be_changed_but_not_the_committed_call(
    make_runner: MakeRunner,
) -> None:
    """FLW-48, TRAP-23: the tool gets the changed copy, the event keeps what the model said."""

    def change(tool: Any, args: dict[str, Any], tool_context: Any) -> None:
        args["word"] = "changed"

    agent = LlmAgent(
        name="a",
        model=ScriptedModel(replies=[call("echo", word="hi"), "done"]),
        tools=[echo],
        before_tool_callback=change,
    )
    events = await send(await make_runner(agent))
    assert events[0].get_function_calls()[0].args == {"word": "hi"}
    assert events[1].get_function_responses()[0].response == {"result": "changed"}


async def test_a_tool_error_can_be_answered(make_runner: MakeRunner) -> None:
    """TOL-18: the model gets the callback's answer, the run continues."""

    def broken() -> None:
        """Raise."""
        raise ValueError("no")

    agent = LlmAgent(
        name="a",
        model=ScriptedModel(replies=[call("broken"), "done"]),
        tools=[broken],
        on_tool_error_callback=lambda tool, args, tool_context, error: {"error": str(error)},
    )
    events = await send(await make_runner(agent))
    assert events[1].get_function_responses()[0].response == {"error": "no"}
    assert gist(events[-1]) == "a text done"


async def test_parallel_results_are_one_event_in_call_order(make_runner: MakeRunner) -> None:
    """FLW-43..45, TRAP-25: parts and state in the order of the calls, not of their completion."""

    async def slow(tool_context: Any) -> str:
        """Finish last."""
        tool_context.state.update({"shared": "slow", "cart": {"slow": 1}})
        return "slow"

    def quick(tool_context: Any) -> str:
        """Finish first."""
        tool_context.state.update({"shared": "quick", "cart": {"quick": 1}})
        return "quick"

    model = ScriptedModel(replies=[calls(("slow", {}), ("quick", {})), "done"])
    runner = await make_runner(LlmAgent(name="a", model=model, tools=[slow, quick]))
    events = await send(runner)
    assert [gist(event) for event in events][1] == "a response slow,quick"
    assert await state(runner) == {"shared": "quick", "cart": {"slow": 1, "quick": 1}}


class Chooser(BaseAgent):
    """A custom agent that runs one sub-agent, looks at what it left, and runs the next."""

    async def _run_async_impl(self, ctx: Any) -> Any:
        first, second = self.sub_agents
        async for event in first.run_async(ctx):
            yield event
        if ctx.session.state["answer"] == "left":
            async for event in second.run_async(ctx):
                yield event
        yield Event(author=self.name, content=text("chosen"))


async def test_a_custom_agent_drives_its_sub_agents(make_runner: MakeRunner) -> None:
    """AGT-35, STA-13: it branches on state that a sub-agent committed a moment before."""
    first = LlmAgent(name="first", model=ScriptedModel(replies=["left"]), output_key="answer")
    second = LlmAgent(name="second", model=ScriptedModel(replies=["and right"] * 2))
    runner = await make_runner(Chooser(name="chooser", sub_agents=[first, second]))
    assert [gist(event) for event in await send(runner)] == [
        "first text left",
        "second text and right",
        "chooser text chosen",
    ]


async def test_end_invocation_ends_only_its_own_agent(make_runner: MakeRunner) -> None:
    """CTX-11, CTX-4: the agent's body is not run; the parent continues."""

    def stop(callback_context: Any) -> None:
        callback_context.state["answer"] = "left"
        callback_context.end_invocation()

    first = LlmAgent(
        name="first", model=ScriptedModel(replies=["never"]), before_agent_callback=stop
    )
    second = LlmAgent(name="second", model=ScriptedModel(replies=["still runs"]))
    runner = await make_runner(Chooser(name="chooser", sub_agents=[first, second]))
    assert [gist(event) for event in await send(runner)] == [
        "first delta",
        "second text still runs",
        "chooser text chosen",
    ]


class Shouter(LlmAgent):
    """An LlmAgent that changes what the model said before it is committed."""

    async def _run_async_impl(self, ctx: Any) -> Any:
        async for event in super()._run_async_impl(ctx):
            event.content = text(event.text.upper())
            yield event


async def test_a_subclass_can_change_what_its_model_said(make_runner: MakeRunner) -> None:
    """AGT-4: what is stored is what the subclass yielded, not what the model said."""
    runner = await make_runner(Shouter(name="a", model=ScriptedModel(replies=["quiet"])))
    assert [gist(event) for event in await send(runner)] == ["a text QUIET"]
    assert [gist(event) for event in await stored(runner)][1:] == ["a text QUIET"]


async def test_state_of_the_message_is_there_for_the_run(make_runner: MakeRunner) -> None:
    """TRAP-17, STA-6: `state_delta` rides on the user's event; its `temp:` keys are not stored."""
    model = ScriptedModel(replies=["hi"])
    agent = LlmAgent(name="a", model=model, instruction="{name} {temp:mood}")
    runner = await make_runner(agent)
    delta = {"name": "Ada", "temp:mood": "calm"}
    await send(runner, state_delta=delta)
    assert str(model.requests[0].config.system_instruction).startswith("Ada calm")
    assert await state(runner) == {"name": "Ada"}


@pytest.mark.parametrize(
    "hook",
    ["before_agent", "after_agent", "before_model", "after_model", "before_tool", "after_tool"],
)
async def test_one_hook_alone_changes_nothing_else(make_runner: MakeRunner, hook: str) -> None:
    """AGT-7, TRAP-9: a content-less event is final by the rule, and ends nothing."""
    model = ScriptedModel(replies=[call("echo", word="hi"), "done"])
    agent = LlmAgent(name="a", model=model, tools=[echo], **{f"{hook}_callback": noting(hook)})
    runner = await make_runner(agent)
    events = await send(runner)
    assert [gist(event) for event in events if event.content] == [
        "a call echo",
        "a response echo",
        "a text done",
    ]
    assert await state(runner) == {hook: True, "tool": "hi"}
    assert [gist(event) for event in await stored(runner)][1:] == [gist(e) for e in events]


async def test_a_session_made_anew_remembers_nothing(make_runner: MakeRunner) -> None:
    """SSN-9: what was deleted is in no later prompt, also of the worker that had it in memory."""
    model = ScriptedModel(replies=["noted"])
    runner = await make_runner(LlmAgent(name="a", model=model))
    await send(runner, "my secret is 42")
    await runner.session_service.delete_session(app_name=runner.app_name, **USER)
    await send(runner, "what is my secret?")
    prompt = str(model.requests[-1].contents)
    assert "what is my secret?" in prompt
    assert "42" not in prompt


async def test_a_callback_that_takes_something_else_is_found_by_its_error(
    make_runner: MakeRunner,
) -> None:
    """The error comes from no line of the callback, so its text says where that is."""

    def before(callback_context: Any) -> None:
        """A callback that forgets the request."""

    model = ScriptedModel(replies=["hi"])
    runner = await make_runner(LlmAgent(name="a", model=model, before_model_callback=before))
    line = before.__code__.co_firstlineno
    expected = rf"before\(callback_context.*{__file__}:{line}.*callback_context, llm_request: too"
    with pytest.raises(TypeError, match=expected):
        await send(runner)


@pytest.mark.parametrize(
    "hook",
    ["before_agent", "after_agent", "before_model", "after_model", "on_model_error"],
)
async def test_an_answer_of_another_type_names_the_callback(
    make_runner: MakeRunner, hook: str
) -> None:
    """The error has the same class in process and on Temporal, the hook, and the function."""

    def give_back_text(**_: Any) -> str:
        return "text"

    replies: Any = [ModelError("down")] if hook == "on_model_error" else ["x"]
    fields: Any = {f"{hook}_callback": give_back_text}
    runner = await make_runner(LlmAgent(name="a", model=ScriptedModel(replies=replies), **fields))
    expected = f"give_back_text.*test_callbacks.py.* answered {hook}_callback with str"
    with pytest.raises(CallbackError, match=expected) as raised:
        await send(runner)
    assert type(raised.value) is CallbackError
