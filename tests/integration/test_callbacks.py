"""Callbacks: when they run, what they change, which event carries it (STA-16)."""

from typing import Any, cast

import pytest
from google.genai import types

from durable_adk.agents import LlmAgent, RunConfig
from durable_adk.errors import CallbackError, ModelError
from durable_adk.models import LlmRequest, LlmResponse, ScriptedModel
from durable_adk.tools import BaseTool
from tests.conftest import MakeRunner
from tests.support.scripts import USER, call, gist, send, state


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
