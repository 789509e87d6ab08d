"""I/O of custom agents: `ctx.step` (DUR-3, AGT-35)."""

import asyncio
import os
from pathlib import Path
from typing import Any

import pytest
from google.genai import types
from temporalio.worker.workflow_sandbox import RestrictedWorkflowAccessError

from durable_adk.agents import BaseAgent, InvocationContext
from durable_adk.apps import App
from durable_adk.client import connect
from durable_adk.embedded import TemporalServer
from durable_adk.errors import (
    AgentDefinitionError,
    NotInLoopError,
    PayloadTooLargeError,
    StateValueError,
    StoreUnavailableError,
)
from durable_adk.events import Event, EventActions
from durable_adk.runners import Runner
from durable_adk.sessions import SqliteSessionService
from durable_adk.worker import WorkerOptions, worker
from tests.conftest import MakeRunner
from tests.support.scripts import gist, send, state, stored
from tests.support.waiting import forever

RUNS: list[str] = []


def read(path: str) -> str:
    """Blocking I/O; it records its process and its runs."""
    RUNS.append(path)
    return Path(path).read_text()


async def write(path: str, *, text: str) -> dict[str, int]:
    """More of it."""
    await asyncio.sleep(0)
    RUNS.append(path)
    Path(path).write_text(text)  # noqa: ASYNC240 - a test's own file
    return {"written": len(text), "pid": os.getpid()}


class Filing(BaseAgent):
    """Writes a file, yields, and reads it again."""

    path: str

    async def _run_async_impl(self, ctx: InvocationContext) -> Any:
        done = await ctx.step(write, self.path, text="kept")
        yield Event(author=self.name, actions=EventActions(state_delta={"n": done["written"]}))
        text = await ctx.step(read, self.path)
        text += await ctx.step(self.suffix, ctx.session.state["n"])
        content = types.Content(role="model", parts=[types.Part(text=text)])
        yield Event(author=self.name, content=content)

    async def suffix(self, number: int) -> str:
        """A method is a step too."""
        return f"/{number}"


async def test_a_step_does_io_and_its_result_is_recorded(
    make_runner: MakeRunner, tmp_path: Path
) -> None:
    """AGT-35: each function ran once, however often the body was replayed."""
    RUNS.clear()
    path = str(tmp_path / "file")
    runner = await make_runner(Filing(name="f", path=path))
    events = await send(runner)
    assert [gist(event) for event in events] == ["f delta", "f text kept/4"]
    assert [path, path] == RUNS
    assert await state(runner) == {"n": 4}


class Reaching(BaseAgent):
    """Asks a service in its body, as agents of ADK may."""

    catches: bool

    async def _run_async_impl(self, ctx: InvocationContext) -> Any:
        try:
            await ctx.memory_service.search_memory(query="x")
        except Exception:
            if not self.catches:
                raise
            await ctx.step(recall)
        yield Event(author=self.name)


@pytest.mark.parametrize("catches", [False, True])
async def test_a_body_reaches_no_service(make_runner: MakeRunner, catches: bool) -> None:
    """DUR-3: it may run again at any time; the error says so, and cannot be caught."""
    RUNS.clear()
    runner = await make_runner(Reaching(name="r", catches=catches))
    with pytest.raises(NotInLoopError, match=r"memory_service\.search_memory.*ctx\.step"):
        await send(runner)
    assert RUNS == []
    assert [event.error_code for event in await stored(runner)] == [None, "NotInLoopError"]


class Recalling(BaseAgent):
    """Its step asks a store that is away at first."""

    async def _run_async_impl(self, ctx: InvocationContext) -> Any:
        content = types.Content(role="model", parts=[types.Part(text=await ctx.step(recall))])
        yield Event(author=self.name, content=content)


def recall() -> str:
    """Answer at the third try."""
    RUNS.append("recall")
    if len(RUNS) < 3:
        raise StoreUnavailableError("away")
    return "recalled"


async def test_a_step_whose_store_is_away_is_run_again(make_runner: MakeRunner) -> None:
    """F16: no run fails for it."""
    RUNS.clear()
    runner = await make_runner(Recalling(name="r"))
    assert [gist(event) for event in await send(runner)] == ["r text recalled"]
    assert len(RUNS) == 3


class Careful(BaseAgent):
    """Catches what its step raises."""

    path: str

    async def _run_async_impl(self, ctx: InvocationContext) -> Any:
        try:
            await ctx.step(read, self.path)
        except OSError as error:
            text = type(error).__name__
            content = types.Content(role="model", parts=[types.Part(text=text)])
            yield Event(author=self.name, content=content)


async def test_what_a_step_raises_can_be_caught_as_what_it_is(
    make_runner: MakeRunner, tmp_path: Path
) -> None:
    """DUR-10: by class, and by the name of what was raised first."""
    events = await send(await make_runner(Careful(name="c", path=str(tmp_path / "none"))))
    assert [gist(event) for event in events] == ["c text FileNotFoundError"]


class Wrong(BaseAgent):
    """Asks for what cannot be a step."""

    how: str

    async def _run_async_impl(self, ctx: InvocationContext) -> Any:
        match self.how:
            case "lambda":
                await ctx.step(lambda: 1)
            case "argument":
                await ctx.step(read, object())
            case "slow":
                await ctx.step(nap, timeout=0.2)
        yield Event(author=self.name)


async def nap() -> None:
    """Take too long."""
    await forever()


@pytest.mark.parametrize(
    ("how", "error"),
    [
        ("lambda", AgentDefinitionError),
        ("argument", StateValueError),
        ("slow", TimeoutError),
    ],
)
async def test_what_cannot_be_a_step_says_so(
    make_runner: MakeRunner, how: str, error: type[Exception]
) -> None:
    """A typed error that names the remedy; nothing hangs."""
    with pytest.raises(error):
        await send(await make_runner(Wrong(name="w", how=how)))


class Reading(BaseAgent):
    """Looks at the conversation, says what it has found, and looks again."""

    async def _run_async_impl(self, ctx: InvocationContext) -> Any:
        before = await ctx.events()
        yield said(self, " ".join(event.text for event in before))
        yield said(self, str(len(await ctx.events()) - len(before)))


def said(agent: BaseAgent, words: str) -> Event:
    """An event with a text."""
    content = types.Content(role="model", parts=[types.Part(text=words)])
    return Event(author=agent.name, content=content)


async def test_a_body_reads_the_session_s_events(make_runner: MakeRunner) -> None:
    """DUR-3: those of earlier invocations and its own, the same at every replay."""
    runner = await make_runner(Reading(name="r"))
    await send(runner, "one")
    events = await send(runner, "two")
    assert [gist(event) for event in events] == ["r text one one 1 two", "r text 1"]
    assert len({event.id for event in events}) == 2


async def test_too_many_events_for_a_payload_are_an_error(make_runner: MakeRunner) -> None:
    """1c: the run fails with the reason, and does not hang."""
    runner = await make_runner(Reading(name="r"))
    await send(runner, "x" * 450_000)
    with pytest.raises(PayloadTooLargeError, match="events"):
        await send(runner, "x" * 450_000)


def opened(path: str) -> str:
    """A function of the body's module, which the body's own guard does not see into."""
    with open(path) as file:  # noqa: PTH123
        return file.read()


class Careless(BaseAgent):
    """Reads a file in its body, by a function."""

    async def _run_async_impl(self, ctx: InvocationContext) -> Any:
        yield Event(author=self.name, content=types.ModelContent(opened(os.devnull)))


async def test_the_sandbox_refuses_what_functions_of_a_body_open(
    tmp_path: Path, sessions: SqliteSessionService
) -> None:
    """D15: although it passes all of our modules through.

    On a server of its own: its history replays only in a sandbox.
    """
    app = App(name="app", root_agent=Careless(name="careless"))
    options = WorkerOptions(task_queue="test", sandboxed=True)
    async with TemporalServer.start(data_dir=tmp_path, headless=True) as server:
        client = await connect(server.address)
        async with worker(client, apps=[app], session_service=sessions, options=options):
            runner = Runner(app=app, session_service=sessions, client=client, task_queue="test")
            async with runner:
                with pytest.raises(RestrictedWorkflowAccessError, match=r"__builtins__\.open"):
                    await send(runner)
