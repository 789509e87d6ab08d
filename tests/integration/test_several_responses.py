"""A model call that yields several whole responses: each is an event, and nothing is lost."""

from collections.abc import AsyncGenerator
from typing import Any

import pytest
from google.genai import types

from durable_adk.agents import LlmAgent, RunConfig
from durable_adk.agents.callback_context import CallbackContext
from durable_adk.agents.run_config import StreamingMode
from durable_adk.errors import ModelError
from durable_adk.models import BaseLlm, LlmRequest, LlmResponse
from durable_adk.models.scripted import turn_of
from durable_adk.tools import ToolContext
from tests.conftest import MakeRunner
from tests.support.scripts import call, ensure_session, gist, send, state, stored


class Several(BaseLlm):
    """Gives a list of responses for each call; an exception is raised."""

    model: str = "several"
    calls: list[list[Any]]

    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        """Yield the responses of the turn that the request shows, by what came before."""
        del stream
        later = turn_of(llm_request) >= len(self.calls[0])
        for response in self.calls[1 if later else 0]:
            if isinstance(response, Exception):
                raise response
            yield response


def said(words: str, **fields: Any) -> LlmResponse:
    """A whole response with a text."""
    content = types.Content(role="model", parts=[types.Part(text=words)])
    return LlmResponse(content=content, **fields)


def asked(name: str, **args: Any) -> LlmResponse:
    """A whole response with a call."""
    return LlmResponse(content=call(name, **args))


def look(where: str, tool_context: ToolContext) -> str:
    """Look somewhere, and remember it."""
    seen = tool_context.state.get("seen", [])
    tool_context.state["seen"] = [*seen, where]
    return f"nothing {where}"


async def test_each_whole_response_is_an_event(make_runner: MakeRunner) -> None:
    """Texts and calls that come apart are all kept, in order, and the output is all the text."""
    model = Several(calls=[[said("one "), asked("look", where="up"), said("two")], []])
    runner = await make_runner(LlmAgent(name="a", model=model, tools=[look], output_key="out"))
    events = await send(runner)
    assert [gist(event) for event in events] == [
        "a text one ",
        "a call look",
        "a response look",
        "a text two",
    ]
    assert await state(runner) == {"seen": ["up"], "out": "one two"}
    kept = await stored(runner)
    assert [event.id for event in kept[1:]] == [event.id for event in events]
    assert len({event.id for event in kept}) == len(kept)


async def test_calls_of_several_responses_run_and_the_model_is_asked_again(
    make_runner: MakeRunner,
) -> None:
    """The model sees every response and every result in the next request."""
    first = [asked("look", where="up"), asked("look", where="down")]
    model = Several(calls=[first, [said("done")]])
    runner = await make_runner(LlmAgent(name="a", model=model, tools=[look], output_key="out"))
    events = await send(runner)
    assert [gist(event) for event in events] == [
        "a call look",
        "a response look",
        "a call look",
        "a response look",
        "a text done",
    ]
    assert await state(runner) == {"seen": ["up", "down"], "out": "done"}
    ids = [item.id for event in events for item in event.get_function_calls()]
    assert len(set(ids)) == 2


async def test_callbacks_see_each_response(make_runner: MakeRunner) -> None:
    """After callbacks run for every whole response, and their changes are all stored."""

    def count(callback_context: CallbackContext, llm_response: LlmResponse) -> None:
        del llm_response
        callback_context.state["count"] = callback_context.state.get("count", 0) + 1

    model = Several(calls=[[said("one "), said("two")], []])
    agent = LlmAgent(name="a", model=model, after_model_callback=count)
    runner = await make_runner(agent)
    events = await send(runner)
    assert [event.actions.state_delta for event in events] == [{"count": 1}, {"count": 2}]


async def test_what_came_before_an_error_is_kept(make_runner: MakeRunner) -> None:
    """A model that fails after a whole response: its calls run, then the run fails."""
    model = Several(calls=[[said("one"), asked("look", where="up"), ValueError("broken")], []])
    runner = await make_runner(LlmAgent(name="a", model=model, tools=[look], output_key="out"))
    await ensure_session(runner)
    with pytest.raises(ValueError, match="broken"):
        await send(runner)
    assert [gist(event) for event in await stored(runner)] == [
        "user text hello",
        "a text one",
        "a call look",
        "a response look",
        "a error ValueError",
    ]


async def test_an_interruption_without_content_is_an_event(make_runner: MakeRunner) -> None:
    """What tells a client about the turn is stored, though nothing was said."""
    runner = await make_runner(
        LlmAgent(name="a", model=Several(calls=[[LlmResponse(interrupted=True)], []]))
    )
    (event,) = await send(runner)
    assert event.interrupted
    assert [event.id] == [one.id for one in (await stored(runner))[1:]]


async def test_several_responses_of_a_stream_are_all_kept(make_runner: MakeRunner) -> None:
    """Chunks are shown and every whole response is stored."""
    chunks = [said("on", partial=True), said("one "), said("tw", partial=True), said("two")]
    runner = await make_runner(
        LlmAgent(name="a", model=Several(calls=[chunks, []]), output_key="out")
    )
    events = await send(runner, run_config=RunConfig(streaming_mode=StreamingMode.SSE))
    assert [event.text for event in events if not event.partial] == ["one ", "two"]
    assert [event.text for event in events if event.partial] == ["on", "tw"]
    assert await state(runner) == {"out": "one two"}


async def test_a_stream_of_chunks_only_is_an_error(make_runner: MakeRunner) -> None:
    """EVT-21: nothing could be stored, so the run says so instead of ending silently."""
    model = Several(calls=[[said("on", partial=True)], []])
    runner = await make_runner(LlmAgent(name="a", model=model))
    with pytest.raises(ModelError):
        await send(runner, run_config=RunConfig(streaming_mode=StreamingMode.SSE))
    assert gist((await stored(runner))[-1]) == "a error UNKNOWN_ERROR"


async def test_changes_of_several_responses_are_made_once(make_runner: MakeRunner) -> None:
    """STA-19: each event repeats what those before it changed, and nothing is counted twice."""

    def count(callback_context: CallbackContext, llm_response: LlmResponse) -> None:
        words = ((llm_response.content and llm_response.content.parts) or [types.Part()])[0].text
        known = callback_context.state
        known["count"] = known.get("count", 0) + 1
        known["seen"] = [*known.get("seen", []), words or "call"]

    whole = [said("one"), said("two"), asked("look", where="up"), said("three")]
    model = Several(calls=[whole, []])
    agent = LlmAgent(name="a", model=model, tools=[look], after_model_callback=count)
    runner = await make_runner(agent)
    await send(runner)
    assert await state(runner) == {
        "count": 4,
        "seen": ["one", "two", "call", "up", "three"],
    }
