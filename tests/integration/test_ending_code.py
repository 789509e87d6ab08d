"""What would end an event loop ends the code of the user that has raised it, wherever that is."""

import asyncio
import gc
import itertools
import socket
from collections.abc import AsyncGenerator, Callable, Iterator
from typing import Any, NoReturn

import pytest

from durable_adk.agents import BaseAgent, InvocationContext, LlmAgent
from durable_adk.errors import frames_of_error
from durable_adk.events import Event, EventActions
from durable_adk.models import LlmRequest, ScriptedModel
from durable_adk.runners import Runner
from tests.conftest import MakeRunner
from tests.support.payload_matrix import say
from tests.support.scripts import call, gist
from tests.support.waiting import PATIENCE, forever, until

ERRORS: dict[str, Callable[[], BaseException]] = {
    "exit": lambda: SystemExit(3),
    "interrupt": KeyboardInterrupt,
    "generator exit": GeneratorExit,
    "cancelled": asyncio.CancelledError,
}
KEPT: list[Any] = []
"""Tasks and generators that nothing else refers to."""


def blow(error: str, *_: Any) -> NoReturn:
    """Raise what is no `Exception`."""
    raised = ERRORS[error]()
    raise raised


async def blows(error: str) -> NoReturn:
    """Raise it in a task."""
    blow(error)


def in_task(error: str) -> None:
    KEPT.append(asyncio.ensure_future(blows(error)))


def in_task_of_task(error: str) -> None:
    async def begins() -> None:
        in_task(error)

    KEPT.append(asyncio.ensure_future(begins()))


def in_group(error: str) -> None:
    async def group() -> None:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(blows(error))
            await asyncio.Event().wait()

    KEPT.append(asyncio.ensure_future(group()))


def in_callback(error: str) -> None:
    asyncio.get_running_loop().call_soon(blow, error)


def in_timer(error: str) -> None:
    asyncio.get_running_loop().call_later(0.01, blow, error)


def in_future(error: str) -> None:
    future = asyncio.get_running_loop().create_future()
    future.add_done_callback(lambda _: blow(error))
    future.set_result(None)


def in_reader(error: str) -> None:
    loop = asyncio.get_running_loop()
    here, there = socket.socketpair()

    def read() -> None:
        loop.remove_reader(here)
        here.close()
        blow(error)

    loop.add_reader(here, read)
    there.send(b"x")
    there.close()


def in_code(error: str) -> None:
    blow(error)


def in_error(error: str) -> None:
    """Raise an error that raises again when somebody looks for its cause."""
    causes = {"__cause__": property(lambda _: blow(error))}
    kind = type("Refusing", (Exception,), causes)
    raise kind("no")


ENDS: dict[str, Callable[[str], None]] = {
    "code": in_code,
    "error": in_error,
    "task": in_task,
    "task of a task": in_task_of_task,
    "group": in_group,
    "callback": in_callback,
    "timer": in_timer,
    "future": in_future,
}
"""Where the code ends that is waiting meanwhile."""


class Falls:
    """A value that raises where it is dropped."""

    def __init__(self, error: str) -> None:
        self.error = error

    def __del__(self) -> None:
        blow(self.error)


@pytest.fixture(autouse=True)
def _collected() -> Iterator[None]:
    """Drop what is left here, and in no later test."""
    yield
    gc.collect()


async def yields(error: str) -> AsyncGenerator[int]:
    """Raise when the generator is closed by whoever collects it."""
    try:
        yield 1
        yield 2
    finally:
        blow(error)


async def let_go(error: str) -> None:
    """Drop a value and an open generator."""
    generator = yields(error)
    await anext(generator)
    del generator
    Falls(error)
    gc.collect()


class Shown(dict[str, Any]):
    """A value that raises when it is read."""

    def items(self) -> NoReturn:
        """Raise."""
        blow(self["error"])


class Body(BaseAgent):
    """A custom agent whose message names a place and an error."""

    async def _run_async_impl(self, ctx: InvocationContext) -> AsyncGenerator[Event, None]:
        assert ctx.user_content is not None
        assert ctx.user_content.parts is not None
        place, _, error = str(ctx.user_content.parts[0].text).partition("/")
        yield Event(author=self.name, content=say("first"))
        if place == "dropped":
            await let_go(error)
        elif place == "value":
            value = Shown(error=error)
            yield Event(author=self.name, actions=EventActions(state_delta={"key": value}))
        elif place == "left":
            in_task(error)
        elif place in ENDS:
            ENDS[place](error)
            await asyncio.Event().wait()
        yield Event(author=self.name, content=say("fine"))


async def does(place: str, error: str) -> dict[str, Any]:
    """Raise an error at a place."""
    if place == "dropped":
        await let_go(error)
    elif place == "value":
        return Shown(error=error)
    elif place == "left":
        in_task(error)
    elif place == "reader" or place in ENDS:
        (ENDS | {"reader": in_reader})[place](error)
        await asyncio.Event().wait()
    return {}


def reply(request: LlmRequest) -> Any:
    """Call the tool as the message says."""
    parts = request.contents[-1].parts or []
    place, _, error = str(parts[0].text).partition("/")
    if parts[0].function_response or not error:
        return "fine"
    return call("does", place=place, error=error)


async def said(runner: Runner, text: str) -> list[Event] | Exception:
    """The events of a message in a session of its own, or what it has failed with."""
    events: list[Event] = []
    try:
        async with asyncio.timeout(PATIENCE):
            run = runner.run_async(user_id=text, session_id="s", new_message=text)
            events += [event async for event in run]
    except Exception as error:  # noqa: BLE001 - the test looks at it
        return error
    return events


def _in_turn() -> Iterator[str]:
    """The errors that asyncio raises out of its loops; others it keeps to the task."""
    return itertools.cycle(["exit", "interrupt"])


def _is_fine(outcome: list[Event] | Exception) -> bool:
    return isinstance(outcome, list) and gist(outcome[-1]).endswith("text fine")


def _is_named(text: str, outcome: list[Event] | Exception) -> bool:
    """Whether the outcome is an error that names what was raised, and the line."""
    kind = type(ERRORS[text.partition("/")[2]]()).__name__
    if text.startswith("error/") and isinstance(outcome, Exception):
        return str(outcome) == "no" and "in_error" in (frames_of_error(outcome) or ["?"])[-1]
    return (
        isinstance(outcome, Exception)
        and str(outcome).startswith(f"User code raised {kind}")
        and f"{blow.__code__.co_firstlineno + 3} in blow" in (frames_of_error(outcome) or ["?"])[-1]
    )


async def _all_end(runner: Runner, places: list[str]) -> None:
    """Those that are to fail do so, at their lines, and nobody else does."""
    expected: dict[str, bool | None] = {
        "code/generator exit": True,
        "code/cancelled": True,
        "value/generator exit": True,
        "value/cancelled": True,
        "left/exit": None,  # it may come before the end of what has begun it
        "dropped/exit": False,
        **{f"{place}/{error}": True for place, error in zip(places, _in_turn(), strict=False)},
        "neighbour": False,
    }
    outcomes = await asyncio.gather(*(said(runner, text) for text in expected))
    wrong = {
        text: outcome
        for (text, fails), outcome in zip(expected.items(), outcomes, strict=True)
        if (fails is False or not _is_named(text, outcome)) and (fails or not _is_fine(outcome))
    }
    assert wrong == {}
    assert _is_fine(await said(runner, "after"))


pytestmark = pytest.mark.filterwarnings(
    "ignore::pytest.PytestUnraisableExceptionWarning",  # of `__del__`
)


async def test_a_body_that_raises_no_exception_ends_its_run_only(make_runner: MakeRunner) -> None:
    """F12, I22: in the event loop of the workflow."""
    runner = await make_runner(Body(name="a"), auto_create_session=True)
    await _all_end(runner, [*ENDS, "value"])


async def test_a_tool_that_raises_no_exception_ends_its_call_only(make_runner: MakeRunner) -> None:
    """F12, I22: in the event loop of user code."""
    agent = LlmAgent(name="a", model=ScriptedModel(replies=reply), tools=[does])
    runner = await make_runner(agent, auto_create_session=True)
    await _all_end(runner, [*ENDS, "reader", "value"])


RUNS: list[str] = []
"""The tools that have begun."""


async def harmed() -> str:
    """Wait in a task of its own for the first time."""
    RUNS.append("harmed")
    if RUNS.count("harmed") == 1:
        await asyncio.create_task(forever())
    return "fine"


async def unharmed() -> str:
    """Wait for the end of the one that cancels."""
    RUNS.append("unharmed")
    await until(lambda: "cancels" in RUNS)
    await asyncio.sleep(0)
    return "fine"


async def cancels() -> str:
    """Cancel whatever runs in the loop."""
    RUNS.append("cancels")
    for task in asyncio.all_tasks():
        task.cancel()
    await asyncio.sleep(0)
    return "not cancelled"


def calls(request: LlmRequest) -> Any:
    """Call what the message names."""
    part = (request.contents[-1].parts or [])[0]
    return "fine" if part.function_response else call(str(part.text))


@pytest.mark.parametrize("make_runner", ["temporal"], indirect=True)  # in process it is the app's
async def test_code_that_cancels_all_tasks_ends_its_call_only(make_runner: MakeRunner) -> None:
    """F12, I22: whose tasks were cancelled with it is run again."""
    RUNS.clear()
    tools: list[Any] = [harmed, unharmed, cancels]
    agent = LlmAgent(name="a", model=ScriptedModel(replies=calls), tools=tools)
    runner = await make_runner(agent, auto_create_session=True)
    others = [asyncio.create_task(said(runner, name)) for name in ("harmed", "unharmed")]
    await until(lambda: len(set(RUNS)) == 2)
    guilty = await said(runner, "cancels")
    assert "was cancelled by code of its own process" in str(guilty)
    assert [_is_fine(outcome) for outcome in await asyncio.gather(*others)] == [True, True]
    assert RUNS.count("harmed") > RUNS.count("cancels") == 1


@pytest.mark.parametrize(
    ("method", "given"),
    [
        ("stop", []),
        ("set_default_executor", [None]),
        ("shutdown_default_executor", []),
        ("set_task_factory", [None]),
    ],
)
async def test_code_that_ends_or_changes_its_loop_fails(
    make_runner: MakeRunner, method: str, given: list[None]
) -> None:
    """F12, I22: in process, too, where the loop is the application's."""

    def stops(**_: Any) -> NoReturn:
        getattr(asyncio.get_running_loop(), method)(*given)
        raise AssertionError("The loop takes it.")

    async def before(callback_context: Any) -> None:
        stops()

    agent = LlmAgent(name="a", model=ScriptedModel(replies=["fine"]), before_agent_callback=before)
    outcome = await said(await make_runner(agent, auto_create_session=True), "go")
    assert f"User code cannot call {method}() of the event loop that runs it." in str(outcome)
