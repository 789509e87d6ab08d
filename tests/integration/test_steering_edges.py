"""What may come between a message and its delivery to the active invocation (D7)."""

import asyncio
import uuid
from collections.abc import AsyncGenerator
from contextlib import suppress
from typing import Any

import pytest
from google.genai import types
from temporalio.client import Client

from durable_adk.activities.commit import staleness
from durable_adk.agents import BaseAgent, InvocationContext, LlmAgent
from durable_adk.artifacts import InMemoryArtifactService
from durable_adk.errors import DurableAdkError, EventConflictError, InvocationCancelledError
from durable_adk.events import Event
from durable_adk.models import LlmRequest, ScriptedModel
from durable_adk.runners import Runner
from durable_adk.sessions import SessionKey, Status
from durable_adk.tools import LongRunningFunctionTool, ToolContext
from durable_adk.wire.messages import workflow_id
from durable_adk.wire.run_config import Budget, RunConfig
from tests.conftest import MakeRunner
from tests.support.gates import GATES, gate, listener, run, until_begun, until_told
from tests.support.scripts import USER, call, ensure_session, gist, stored
from tests.support.waiting import PATIENCE, until

KEY = SessionKey("app", "u", "s")


async def steered(
    runner: Runner, name: str, message: Any = "two", **options: Any
) -> "tuple[asyncio.Task[list[str]], asyncio.Task[list[str]]]":
    """An invocation in its tool, and a message of which it knows."""
    await ensure_session(runner)
    first = run(runner, "one", invocation_id=f"f-{name}")
    await until_begun(name)
    second = run(runner, message, when_busy="steer", invocation_id=f"s-{name}", **options)
    await until_told(runner, f"s-{name}")
    return first, second


async def gists(runner: Runner) -> list[str]:
    """What the session says."""
    return [gist(event) for event in await stored(runner)]


async def test_nothing_of_a_message_is_left_when_it_was_heard(make_runner: MakeRunner) -> None:
    """I24: no ticket that the next message would wait behind."""
    name = uuid.uuid4().hex
    runner = await make_runner(listener(name))
    first, second = await steered(runner, name)
    GATES[name].set()
    assert await first
    assert await second == ["a text heard two"]
    assert await runner.session_service.waiting(KEY) == []
    async with asyncio.timeout(PATIENCE):
        assert (await run(runner, "three", when_busy="reject"))[-1] == "a text heard three"


async def test_a_message_that_was_heard_is_known_by_its_id(make_runner: MakeRunner) -> None:
    """I12, DUR-13: sent again it is the same, whatever it wants of a busy session; or another."""
    name = uuid.uuid4().hex
    runner = await make_runner(listener(name))
    first, second = await steered(runner, name)
    GATES[name].set()
    assert await first
    assert await second == ["a text heard two"]
    for options in ({}, {"when_busy": "steer"}):
        again = await run(runner, "two", invocation_id=f"s-{name}", **options)
        assert again == ["a text heard two"]
    attached = await run(runner, None, invocation_id=f"s-{name}")
    assert attached[-1] == "a text heard two"
    with pytest.raises(EventConflictError):
        await run(runner, "another", when_busy="steer", invocation_id=f"s-{name}")
    assert (await gists(runner)).count("user text two") == 1


async def test_a_message_that_is_cancelled_is_not_heard(make_runner: MakeRunner) -> None:
    """CAN-1, I12: its sender learns that it is over, and so it is."""
    name = uuid.uuid4().hex
    runner = await make_runner(listener(name))
    first, second = await steered(runner, name)
    assert await runner.cancel(**USER, invocation_id=f"s-{name}")
    with suppress(asyncio.CancelledError, InvocationCancelledError):
        await asyncio.wait_for(second, PATIENCE)
    GATES[name].set()
    assert (await first)[-1] == "a text heard one"
    assert "user text two" not in await gists(runner)


@pytest.mark.parametrize("limits", [{"max_llm_calls": 1}, {"budget": Budget(model_calls=1)}])
async def test_who_may_ask_no_model_any_more_hears_nothing(
    make_runner: MakeRunner, limits: dict[str, Any]
) -> None:
    """D7, CTX-3: the message would be answered by nobody, so it runs by itself."""
    name = uuid.uuid4().hex
    runner = await make_runner(listener(name))
    await ensure_session(runner)
    first = run(runner, "one", run_config=RunConfig(**limits))
    await until_begun(name)
    second = run(runner, "two", when_busy="steer", invocation_id=f"s-{name}")
    await until_told(runner, f"s-{name}")
    GATES[name].set()
    with pytest.raises(DurableAdkError):
        await first
    assert (await second)[-1] == "a text heard two"
    events = await gists(runner)
    assert events.index("user text two") > next(
        at for at, said in enumerate(events) if said.startswith("a error")
    )


async def test_all_that_a_message_brings_is_stored_with_it(make_runner: MakeRunner) -> None:
    """RUN-22, RUN-27, TRAP-17: files, metadata and state changes ride on its event."""
    name = uuid.uuid4().hex
    files = InMemoryArtifactService()
    runner = await make_runner(listener(name), artifact_service=files)
    blob = types.Part(inline_data=types.Blob(data=b"abc", mime_type="text/plain"))
    message = types.Content(role="user", parts=[types.Part(text="two"), blob])
    config = RunConfig(save_input_blobs_as_artifacts=True, custom_metadata={"who": "me"})
    first, second = await steered(
        runner, name, message, run_config=config, state_delta={"key": 1, "temp:key": 2}
    )
    GATES[name].set()
    await asyncio.gather(first, second)
    event = next(event for event in await stored(runner) if event.id == f"s-{name}.0")
    (kept,) = await files.list_artifact_keys(app_name="app", **USER)
    assert event.actions.artifact_delta == {kept: 0}
    assert event.actions.state_delta == {"key": 1}
    assert (event.custom_metadata or {})["who"] == "me"


@pytest.mark.parametrize("make_runner", ["local"], indirect=True)
async def test_a_message_may_come_from_another_event_loop(
    make_runner: MakeRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    """RUN-28: the sync `Runner.run` has a loop of its own; debug mode tells of unsafe calls."""
    name = uuid.uuid4().hex
    runner = await make_runner(listener(name))
    await ensure_session(runner)
    loop = asyncio.get_running_loop()
    debug = loop.get_debug()
    loop.set_debug(True)
    try:
        first = run(runner, "one")
        await until_begun(name)

        def send() -> list[str]:
            options = {"when_busy": "steer", "invocation_id": f"s-{name}"}
            events = runner.run(**USER, new_message="two", **options)
            return [gist(event) for event in events]

        second = asyncio.create_task(asyncio.to_thread(send))
        await until_told(runner, f"s-{name}")
        GATES[name].set()
        assert (await first)[-1] == "a text heard two"
        assert await second == ["a text heard two"]
    finally:
        loop.set_debug(debug)


@pytest.mark.parametrize("make_runner", ["temporal"], indirect=True)
async def test_a_message_reaches_no_other_session(make_runner: MakeRunner, client: Client) -> None:
    """I18: a workflow id that its owner has used up may be another user's by now."""
    name = uuid.uuid4().hex
    runner = await make_runner(listener(name))
    queue = runner._client.backend._invocations.task_queue

    async def start(user: str) -> Any:
        request = {"app": "app", "user": user, "session": "s", "message": "one"}
        GATES.setdefault(f"{name} begun", asyncio.Event()).clear()
        handle = await client.start_workflow(
            "Invocation", request, id=f"trip-{name}", task_queue=queue
        )
        await until_begun(name)
        return handle

    await (await start("u")).terminate()
    others = await start("eve")
    second = run(runner, "secret", when_busy="steer", invocation_id=f"s-{name}")
    assert (await asyncio.wait_for(second, PATIENCE))[-1] == "a text heard secret"
    GATES[name].set()
    assert (await others.result())["text"] == "heard one"
    events = await runner.session_service.read_events(SessionKey("app", "eve", "s"))
    assert "user text secret" not in [gist(item.event) for item in events]


@pytest.mark.parametrize("make_runner", ["temporal"], indirect=True)
async def test_the_staleness_check_knows_what_a_heard_message_is(
    make_runner: MakeRunner, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """I21: it has completed and no invocation, which does not make the store an older one."""
    monkeypatch.setattr(staleness, "MAX_AGE", 0.0)
    name = uuid.uuid4().hex
    runner = await make_runner(listener(name))
    first, second = await steered(runner, name)
    GATES[name].set()
    await asyncio.gather(first, second)
    await runner.session_service.create_session(app_name="app", user_id="u", session_id="other")
    completed = " OR ".join(f"WorkflowId = '{workflow_id(KEY, f'{one}-{name}')}'" for one in "fs")
    query = f"ExecutionStatus = 'Completed' AND ({completed})"

    async def listed() -> bool:
        return (await client.count_workflows(query)).count == 2

    await until(listed)
    sent = runner.run_async(user_id="u", session_id="other", new_message="hi")
    assert [gist(event) async for event in sent][-1] == "a text heard hi"
    assert (await run(runner, "hi"))[-1] == "a text heard hi"


WHILE = 3.0
"""Seconds: longer than it takes from the answer of a tool until its invocation is paused."""


class Patient(BaseAgent):
    """Gives its first agent a while, then asks the other."""

    async def _run_async_impl(self, ctx: InvocationContext) -> AsyncGenerator[Event, None]:
        one, two = self.sub_agents
        with suppress(TimeoutError):
            async with asyncio.timeout(WHILE):
                async for event in one.run_async(ctx):
                    yield event
        async for event in two.run_async(ctx):
            yield event


async def ask(who: str, tool_context: ToolContext) -> None:
    """A tool whose answer comes later."""
    await gate(who, tool_context)


@pytest.mark.thorough
async def test_a_body_that_goes_on_from_a_pause_may_hear(make_runner: MakeRunner) -> None:
    """D9, I6: the lease was returned, and is taken again before anything is stored."""
    name = uuid.uuid4().hex
    asks = ScriptedModel(replies=[call("ask", who=name)])
    one = LlmAgent(name="one", model=asks, tools=[LongRunningFunctionTool(ask)])
    two = LlmAgent(name="two", model=ScriptedModel(replies=["spoken"] * 3))
    runner = await make_runner(Patient(name="patient", sub_agents=[one, two]))
    _, second = await steered(runner, name)
    await runner.cancel(**USER, invocation_id=f"s-{name}")  # else it opens in the pause
    with suppress(asyncio.CancelledError, InvocationCancelledError):
        await asyncio.wait_for(second, PATIENCE)
    GATES[name].set()

    async def end() -> Status | None:
        record = await runner.session_service.get_invocation(KEY, f"f-{name}")
        return record.status if record and record.status.closed else None

    assert await until(end) is Status.COMPLETED
    assert (await gists(runner))[-1] == "two text spoken"


async def fill(n: int, tool_context: ToolContext) -> str:
    """Make the state large."""
    tool_context.state[f"k{n}"] = "x" * 850_000
    return "ok"


class Body(BaseAgent):
    """A body that reads the state."""

    async def _run_async_impl(self, ctx: InvocationContext) -> AsyncGenerator[Event, None]:
        async for event in self.sub_agents[0].run_async(ctx):
            yield event
        text = f"{ctx.session.state['key']} {len(ctx.session.state['k2'])}"
        yield Event(author=self.name, content=types.ModelContent(text))


@pytest.mark.parametrize("make_runner", ["temporal"], indirect=True)
async def test_a_message_is_heard_where_the_state_is_too_large_to_send(
    make_runner: MakeRunner,
) -> None:
    """I8, 1c: the body has the message's own changes all the same."""
    name = uuid.uuid4().hex

    def reply(request: LlmRequest) -> types.Content | str:
        done = sum(1 for c in request.contents for p in c.parts if p.function_response)
        return [*(call("fill", n=n) for n in range(3)), call("gate", who=name), "done"][done]

    agent = LlmAgent(name="a", model=ScriptedModel(replies=reply), tools=[gate, fill])
    runner = await make_runner(Body(name="body", sub_agents=[agent]))
    first, second = await steered(runner, name, state_delta={"key": "here"})
    GATES[name].set()
    async with asyncio.timeout(PATIENCE):
        assert (await first)[-1] == "body text here 850000"
        assert (await second)[-1] == "body text here 850000"
