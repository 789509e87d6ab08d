"""What the seeds promise beyond the twenty steps, each row where it can be seen from outside.

docs/use/adk-compatibility.md says which row is held by which test.
"""

import asyncio
import inspect
import threading
from collections.abc import AsyncGenerator, Callable
from typing import Any

import pytest
from google.genai import types

from durable_adk.agents import BaseAgent, InvocationContext, LlmAgent
from durable_adk.artifacts import InMemoryArtifactService
from durable_adk.context.activity import CallbackContext, ToolContext
from durable_adk.errors import InvalidRequestError, StateValueError
from durable_adk.events import Event, EventActions
from durable_adk.memory import InMemoryMemoryService
from durable_adk.models import BaseLlm, LlmResponse, ScriptedModel
from durable_adk.runners import InMemoryRunner, Runner
from durable_adk.sessions import SessionLog
from durable_adk.tools import BaseTool, FunctionTool
from durable_adk.wire.run_config import RunConfig, StreamingMode
from tests.conftest import MakeRunner
from tests.support.scripts import USER, call, calls, ensure_session, gist, send, state, stored
from tests.support.streams import StreamingModel
from tests.support.waiting import PATIENCE


def said(text: str, role: str = "model") -> types.Content:
    """A content of one text."""
    return types.Content(role=role, parts=[types.Part(text=text)])


class Desk:
    """The application's side: its runner, and what it saw of the store."""

    def __init__(self) -> None:
        self.runner: Runner | None = None
        self.seen: list[list[str]] = []

    async def look(self, **_: Any) -> None:
        """Note what a fresh read of the session gives now; fits every callback."""
        assert self.runner is not None
        self.seen.append([gist(event) for event in await stored(self.runner)])


async def test_the_message_comes_first_and_the_agent_finds_it(make_runner: MakeRunner) -> None:
    """Rows 10, 11, 12, 67, 68, 70: stored as sent, by `user`, before the agent is called."""
    found: list[Any] = []

    async def before(callback_context: CallbackContext) -> None:
        found.append(callback_context)
        await desk.look()

    desk = Desk()
    agent = LlmAgent(name="a", model=ScriptedModel(replies=["hi"]), before_agent_callback=before)
    desk.runner = await make_runner(agent)
    await ensure_session(desk.runner)
    message = said("hello", role="user")
    events = [event async for event in desk.runner.run_async(**USER, new_message=message)]
    first = (await stored(desk.runner))[0]
    assert (first.author, first.content) == ("user", message)
    assert desk.seen == [["user text hello"]]
    assert found[0].user_content == message
    assert [event.id for event in found[0].session.events] == [first.id]
    assert found[0].invocation_id == first.invocation_id == events[0].invocation_id


class Reporter(BaseAgent):
    """Yields twice, and looks at the store after each yield."""

    desk: Any

    async def _run_async_impl(self, ctx: InvocationContext) -> AsyncGenerator[Event, None]:
        for text in ("one", "two"):
            yield Event(author=self.name, content=said(text))
            await ctx.step(self.look)

    async def look(self) -> None:
        """Look at the store."""
        await self.desk.look()


async def test_the_agent_waits_for_each_commit(make_runner: MakeRunner) -> None:
    """Rows 14, 29, 30, 31, 36: the statement after a yield finds that event stored, no later."""
    desk = Desk()
    desk.runner = await make_runner(Reporter(name="r", desk=desk))
    await send(desk.runner)
    assert desk.seen == [
        ["user text hello", "r text one"],
        ["user text hello", "r text one", "r text two"],
    ]


class Unstorable(Reporter):
    """Yields an event that no store takes."""

    async def _run_async_impl(self, ctx: InvocationContext) -> AsyncGenerator[Event, None]:
        yield Event(author=self.name, actions=EventActions(state_delta={"k": {1, 2}}))
        await ctx.step(self.look)


async def _collect(runner: Runner, events: list[str]) -> None:
    """Add each event to the list as soon as it comes."""
    async for event in runner.run_async(**USER, new_message="hello"):
        events.append(gist(event))  # noqa: PERF401 - what came before an error must be there too


async def test_after_a_commit_that_failed_the_agent_does_not_go_on(
    make_runner: MakeRunner,
) -> None:
    """Rows 24, 34: the event is not forwarded, the next statement not run; the caller gets it."""
    desk = Desk()
    desk.runner = await make_runner(Unstorable(name="u", desk=desk))
    await ensure_session(desk.runner)
    events: list[str] = []
    with pytest.raises(StateValueError):
        await _collect(desk.runner, events)
    assert events == ["u error StateValueError"]
    assert desk.seen == []
    assert await state(desk.runner) == {}


async def test_every_callback_finds_what_came_before_it_stored(make_runner: MakeRunner) -> None:
    """Rows 74, 82, 84, 87, 90: the next model call, and the end, come after the commit."""
    desk = Desk()

    def look_up() -> str:
        """Look something up."""
        return "found"

    model = ScriptedModel(replies=[call("look_up"), "done"])
    hooks: dict[str, Any] = {"before_model_callback": desk.look, "after_agent_callback": desk.look}
    desk.runner = await make_runner(LlmAgent(name="a", model=model, tools=[look_up], **hooks))
    log = ["user text hello", *[gist(event) for event in await send(desk.runner)]]
    assert desk.seen == [log[:1], log[:3], log[:4]]


async def test_a_change_is_stored_with_its_event_and_not_before(make_runner: MakeRunner) -> None:
    """Rows 93, 94, 99, 179: a write is read back at once, and stored with its event."""
    before: list[dict[str, Any]] = []
    runners: list[Runner] = []

    async def note(tool_context: ToolContext) -> str:
        """Write, read, and look at the store."""
        tool_context.state["status"] = "processing"
        before.append(await state(runners[0]))
        return tool_context.state["status"]

    model = ScriptedModel(replies=[call("note"), "done"])
    runner = await make_runner(LlmAgent(name="a", model=model, tools=[note]))
    runners.append(runner)
    events = await send(runner)
    assert before == [{}]
    assert events[1].get_function_responses()[0].response == {"result": "processing"}
    assert await state(runner) == {"status": "processing"}


async def test_an_artifact_is_stored_at_once_and_confirmed_by_its_event(
    make_runner: MakeRunner,
) -> None:
    """Rows 55, 56, 60, 80, 146, 163, 164: bytes at the call; name and version on the event."""
    service = InMemoryArtifactService()
    seen: list[Any] = []

    async def draw(tool_context: ToolContext) -> None:
        """Save a file twice."""
        for data in (b"draft", b"final"):
            part = types.Part.from_bytes(data=data, mime_type="x/y")
            await tool_context.save_artifact("a.bin", part)
        seen.append(await service.list_versions(app_name="app", **USER, filename="a.bin"))

    model = ScriptedModel(replies=[call("draw"), "done"])
    agent = LlmAgent(name="a", model=model, tools=[draw])
    runner = await make_runner(agent, artifact_service=service)
    events = await send(runner)
    assert seen == [[0, 1]]
    assert [event.actions.artifact_delta for event in events] == [{}, {"a.bin": 1}, {}]
    assert (await stored(runner))[2].actions.artifact_delta == {"a.bin": 1}
    part = await service.load_artifact(app_name="app", **USER, filename="a.bin")
    assert part is not None
    assert part.inline_data is not None
    assert part.inline_data.data == b"final"


async def test_the_configured_services_are_there_for_the_run(make_runner: MakeRunner) -> None:
    """Rows 16, 57: one session is remembered, and found from the user's other session."""

    async def remember(tool_context: ToolContext) -> int:
        """Remember this session, and search what is remembered."""
        await tool_context.add_session_to_memory()
        return len((await tool_context.search_memory("umbrella")).memories)

    model = ScriptedModel(replies=lambda request: call("remember") if _asked(request) else "ok")
    agent = LlmAgent(name="a", model=model, tools=[remember])
    runner = await make_runner(agent, memory_service=InMemoryMemoryService())
    await send(runner, "my umbrella is red")
    other = {"user_id": "u", "session_id": "t"}
    await runner.session_service.create_session(app_name=runner.app_name, **other)
    found = [
        response.response
        async for event in runner.run_async(**other, new_message="what is red?")
        for response in event.get_function_responses()
    ]
    assert found == [{"result": 1}]


def _asked(request: Any) -> bool:
    """Whether the request ends with the user's text, and not with a tool's result."""
    return bool(request.contents[-1].parts[-1].text)


def whisper() -> str:
    """Say it softly."""
    return "psst"


async def test_each_call_knows_its_id(make_runner: MakeRunner) -> None:
    """Rows 177, 178: two calls of one tool in one turn are distinguished, up to their responses."""

    def who(tool_context: ToolContext) -> str:
        """Say which call this is."""
        return tool_context.function_call_id

    model = ScriptedModel(replies=[calls(("who", {}), ("who", {})), "done"])
    events = await send(await make_runner(LlmAgent(name="a", model=model, tools=[who])))
    ids = [item.id for item in events[0].get_function_calls()]
    answers = [(item.id, item.response) for item in events[1].get_function_responses()]
    assert len(set(ids)) == 2
    assert answers == [(name, {"result": name}) for name in ids]


async def test_all_of_an_invocation_has_one_id(make_runner: MakeRunner) -> None:
    """Rows 62 to 65, 144, 196: agents, model calls, a tool, callbacks; the next one differs."""

    def note(callback_context: CallbackContext) -> None:
        callback_context.state[callback_context.agent_name] = callback_context.invocation_id

    replies = [call("whisper"), "done", "again"]
    child = LlmAgent(
        name="child",
        model=ScriptedModel(replies=replies),
        tools=[whisper],
        before_agent_callback=note,
    )
    to_child = call("transfer_to_agent", agent_name="child")
    desk = LlmAgent(
        name="desk",
        model=ScriptedModel(replies=[to_child]),
        sub_agents=[child],
        before_agent_callback=note,
    )
    runner = await make_runner(desk)
    await send(runner)
    log = await stored(runner)
    assert {event.author for event in log} == {"user", "desk", "child"}
    ids = {event.invocation_id for event in log}
    assert len(ids) == 1
    assert set((await state(runner)).values()) == ids
    assert len({event.id for event in log}) == len(log)
    assert {event.invocation_id for event in await send(runner)}.isdisjoint(ids)


class Nameless(BaseAgent):
    """Yields an event without id and time."""

    async def _run_async_impl(self, ctx: InvocationContext) -> AsyncGenerator[Event, None]:
        yield Event(author=self.name, content=said("hello"))


async def test_what_an_event_lacks_is_filled_in_when_it_is_committed(
    make_runner: MakeRunner,
) -> None:
    """Rows 143, 157, 165, 166, 191: id, invocation and time; the author stays who yielded it."""
    runner = await make_runner(Nameless(name="n"))
    event = (await send(runner))[0]
    assert event.author == "n"
    assert event.id
    assert event.invocation_id
    assert event.timestamp > 0
    assert (await stored(runner))[-1] == event


async def test_blocking_tools_do_not_wait_for_each_other(make_runner: MakeRunner) -> None:
    """Row 122, OPEN-7: two sync tools of one turn meet, so neither holds up the other."""
    meeting = threading.Barrier(2, timeout=PATIENCE)

    def meet(tool_context: ToolContext) -> str:
        """Block until the other call is here."""
        meeting.wait()
        return "met"

    model = ScriptedModel(replies=[calls(("meet", {}), ("meet", {})), "done"])
    events = await send(await make_runner(LlmAgent(name="a", model=model, tools=[meet])))
    assert [item.response for item in events[1].get_function_responses()] == [
        {"result": "met"},
        {"result": "met"},
    ]


@pytest.mark.parametrize(
    "method",
    [
        Runner.run_async,
        BaseAgent.run_async,
        LlmAgent._run_async_impl,
        BaseLlm.generate_content_async,
        BaseTool.run_async,
        FunctionTool.run_async,
        SessionLog.append_event,
        SessionLog.get_session,
    ],
    ids=lambda method: method.__qualname__,
)
def test_what_runs_is_async(method: Callable[..., Any]) -> None:
    """Rows 115, 116: the parts that run are coroutines or asynchronous generators."""
    makes_iterator = "AsyncGenerator" in str(inspect.signature(method).return_annotation)
    assert inspect.iscoroutinefunction(method) or makes_iterator


async def test_a_streamed_answer_arrives_in_pieces_and_is_stored_whole(
    make_runner: MakeRunner,
) -> None:
    """Rows 104 to 110, 113, FLW-71, FLW-72, TRAP-4: pieces come at once, and change nothing."""

    def note(callback_context: CallbackContext, llm_response: LlmResponse) -> None:
        callback_context.state["seen"] = llm_response.partial or "whole"

    rest = asyncio.Event()
    model = StreamingModel(turns=[["one ", rest, "two ", "three", "one two three"]])
    agent = LlmAgent(name="a", model=model, output_key="answer", after_model_callback=note)
    runner = await make_runner(agent)
    await ensure_session(runner)
    config = RunConfig(streaming_mode=StreamingMode.SSE)
    pieces: list[Event] = []
    whole: list[Event] = []
    async for event in runner.run_async(**USER, new_message="hello", run_config=config):
        if not pieces:
            assert await state(runner) == {}
            assert [gist(event) for event in await stored(runner)] == ["user text hello"]
            rest.set()
        (pieces if event.partial else whole).append(event)
    assert len(pieces) > 1
    assert [event.text for event in whole] == ["".join(piece.text for piece in pieces)]
    assert all(not piece.actions.state_delta for piece in pieces)
    assert (await stored(runner))[1:] == whole
    assert await state(runner) == {"answer": "one two three", "seen": "whole"}


class Drafter(BaseAgent):
    """Yields a partial event of its own."""

    async def _run_async_impl(self, ctx: InvocationContext) -> AsyncGenerator[Event, None]:
        actions = EventActions(state_delta={"k": 1})
        yield Event(author=self.name, content=said("he"), partial=True, actions=actions)


async def test_a_partial_event_of_an_agents_own_is_refused(make_runner: MakeRunner) -> None:
    """Rows 21, 108: it is neither stored nor applied; the run fails."""
    runner = await make_runner(Drafter(name="d"))
    with pytest.raises(InvalidRequestError, match="whole event"):
        await send(runner)
    assert await state(runner) == {}
    assert [gist(event) for event in await stored(runner)] == [
        "user text hello",
        "d error ValueError",
    ]


async def test_the_users_event_is_yielded_if_asked_for(make_runner: MakeRunner) -> None:
    """RUN-19, 17.1: first, and as it is stored; otherwise it is not yielded."""
    runner = await make_runner(LlmAgent(name="a", model=ScriptedModel(replies=["hi"])))
    events = await send(runner, yield_user_message=True)
    assert [gist(event) for event in events] == ["user text hello", "a text hi"]
    assert events == await stored(runner)


async def test_live_runs_are_refused() -> None:
    """RUN-30, RCF-1: what is not supported says so, and names what is."""
    with pytest.raises(ValueError, match="use SSE"):
        RunConfig(streaming_mode=StreamingMode.BIDI)
    async with InMemoryRunner(LlmAgent(name="a", model=ScriptedModel(replies=["hi"]))) as runner:
        with pytest.raises(InvalidRequestError, match="use run_async"):
            runner.run_live(**USER)
