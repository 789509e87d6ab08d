"""Values and exceptions of user code, and agents that return or raise them (F13, F31).

This is one axis of a matrix. The tests have the other: the positions.
"""

import asyncio
import math
import re
import traceback
import uuid
from collections.abc import AsyncGenerator, Callable, Collection, Iterable
from contextlib import asynccontextmanager
from decimal import Decimal
from itertools import product
from pathlib import Path
from typing import Any, NoReturn

from google.genai import types
from temporalio.client import Client

from durable_adk.agents import BaseAgent, LlmAgent
from durable_adk.apps import App
from durable_adk.artifacts import InMemoryArtifactService
from durable_adk.errors import DurableAdkError, describe
from durable_adk.errors.user_error import MAX_MESSAGE, UNFIT, storable
from durable_adk.events import Event
from durable_adk.models import LlmRequest, ScriptedModel
from durable_adk.plugins import BasePlugin
from durable_adk.runners import Runner
from durable_adk.sessions import SqliteSessionService
from durable_adk.tools import FunctionTool
from durable_adk.worker import WorkerOptions, worker
from tests.support.scripts import call, gist, send, stored
from tests.support.waiting import PATIENCE

RUNS: list[str] = []
"""One entry for each time that the code of a cell has run: the ledger of I8."""


def deep(levels: int = 10_000) -> list[Any]:
    """Lists in lists."""
    value: list[Any] = []
    for _ in range(levels):
        value = [value]
    return value


def endless() -> dict[str, Any]:
    """An object that holds itself."""
    value: dict[str, Any] = {}
    value["self"] = value
    return value


class Mute(Exception):  # noqa: N818 - it is about its text
    """An exception that has no text."""

    def __str__(self) -> str:
        raise RuntimeError("no text")

    __repr__ = __str__


class Unreadable:
    """A value without a representation."""

    def __repr__(self) -> str:
        raise RuntimeError("no representation")


VALUES: dict[str, Callable[[], Any]] = {
    "1.5 MB": lambda: "x" * 1_500_000,
    "3 MB": lambda: "x" * 3_000_000,
    "6 MB": lambda: "\u20ac" * 2_000_000,
    "nan": lambda: math.nan,
    "infinity": lambda: [math.inf],
    "nul": lambda: "a\x00b",
    "surrogate": lambda: "a\ud800b",
    "nul key": lambda: {"a\x00": 1},
    "number key": lambda: {1: "x"},
    "deep": deep,
    "endless": endless,
    "object": object,
    "lambda": lambda: lambda: None,
    "unreadable": Unreadable,
    "unreadable key": lambda: {Unreadable(): 1},
    "decimal": lambda: Decimal("1.5"),
    "set": lambda: {"b", "a"},
    "generator": lambda: (n for n in range(3)),
    "bytes": lambda: b"\xff\x00",
    "huge int": lambda: 2**80,
    "very long int": lambda: 10**5000,
}
FINE = {"number key", "decimal", "set", "generator", "bytes", "huge int"}
"""What JSON can hold, or can be made to."""
RAISED: dict[str, Callable[[], BaseException]] = {
    "6 MB": lambda: RuntimeError("x" * 6_000_000),
    "wide": lambda: RuntimeError("\U0001f600" * 20_000),
    "mute": Mute,
    "surrogate": lambda: ValueError("\ud800"),
    "exit": lambda: SystemExit(1),
    "interrupt": KeyboardInterrupt,
    "generator exit": GeneratorExit,
    "recursion": RecursionError,
    "stop": lambda: StopIteration("x" * 3_000_000),
    "stop async": StopAsyncIteration,
    "memory": MemoryError,
    "cancelled": asyncio.CancelledError,
    "group": lambda: ExceptionGroup("g" * 3_000_000, [ValueError("x" * 3_000_000)]),
}

HARD = ["3 MB", "surrogate", "deep", "unreadable key", "very long int"]
"""One value of each kind, for places where the code is the same."""
HARD_RAISED = ["6 MB", "mute", "surrogate", "exit", "generator exit", "group"]
TEXTS = ["1.5 MB", "3 MB", "6 MB", "nul", "surrogate"]


def blow(name: str) -> NoReturn:
    """Raise one of them."""
    error = RAISED[name]()
    raise error


def ends(
    fine: Collection[str] = (), *, runs: int | None = None, naming: str = ""
) -> Callable[..., None]:
    """Return a check of a cell: which values end no run, how often its code runs, and the error.

    Args:
        fine: Values that are stored; all others end the run with an error.
        runs: How often the code runs, by I8; None: it does not matter.
        naming: A pattern of what the error names.
    """

    def check(error: Exception | None, *cell: str) -> None:
        assert runs is None or len(RUNS) == runs, RUNS
        assert (error is None) == (cell[-1] in fine), type(error)
        assert error is None or re.search(naming, str(error)), type(error)

    return check


def reaches(fine: Collection[str]) -> Callable[..., None]:
    """Return a check of a cell: the code gets these values, once; others end the run before."""

    def check(error: Exception | None, *cell: str) -> None:
        ends(fine, runs=int(cell[-1] in fine))(error, *cell)

    return check


def raises_once(error: Exception | None, *cell: str) -> None:
    """Check that the code runs once, and how its error is raised to the caller; see `fits`."""
    assert RUNS == ["ran"], RUNS
    assert fits(error, cell[-1]), type(error)


def fits(error: Exception | None, name: str) -> bool:
    """Return whether the caller's error is of the class that was raised.

    What is no `Exception`, and what Python gives a meaning of its own, is never raised to a caller:
    that error is of ours, or a RuntimeError that names the class.
    """
    kind = type(RAISED[name]())
    if issubclass(kind, Exception) and not issubclass(kind, UNFIT):
        return isinstance(error, kind) and describe(error)[0] == kind.__name__
    if isinstance(error, DurableAdkError):
        return not isinstance(error, kind)
    return type(error) is RuntimeError and kind.__name__ in str(error)


class Matrix:
    """Runs the cells of one position on one worker, each in an app and a session of its own."""

    def __init__(self, client: Client, folder: Path) -> None:
        self._client = client
        self._folder = folder
        self.queue = ""

    async def run(
        self,
        agent: Callable[..., BaseAgent],
        check: Callable[..., None],
        *axes: Iterable[Any],
        plugin: Callable[..., BasePlugin] | None = None,
        sent: Callable[..., dict[str, Any]] = lambda *_: {},
    ) -> None:
        """Run an agent for each cell, and after it the next message; name all cells that fail.

        A neighbour runs on the same worker at the same time (I22).

        Args:
            agent: Makes the agent of a cell.
            check: Receives the error of the agent's run, or None, and the cell; `RUNS` has what
                this cell has run.
            axes: Each cell has one of each.
            plugin: Makes the plugin of a cell.
            sent: Makes the message of a cell, and what is sent beside it.
        """
        cells = list(product(*axes))
        near = LlmAgent(name="near", model=ScriptedModel(replies=lambda _: "fine"))
        apps = [
            App(
                name=f"cell-{number}",
                root_agent=agent(*cell),
                plugins=[plugin(*cell)] if plugin else [],
            )
            for number, cell in enumerate(cells)
        ]
        failed = dict[str, str]()
        async with self.serving(App(name="near", root_agent=near), *apps) as (near, *runners):
            for cell, runner in zip(cells, runners, strict=True):
                RUNS.clear()
                try:
                    error = await _turn(runner, near, **sent(*cell))
                    await _looks_whole(runner, error)
                    check(error, *cell)
                except (AssertionError, TimeoutError) as problem:
                    where = traceback.extract_tb(problem.__traceback__)[-1].line
                    failed[", ".join(map(str, cell))] = f"{where} {problem}"
                    if isinstance(problem, TimeoutError):
                        break  # each of the others may wait as long
        assert not failed, failed

    @asynccontextmanager
    async def serving(self, *apps: App) -> AsyncGenerator[list[Runner]]:
        """A runner for each of the apps, which one worker serves."""
        service = SqliteSessionService(self._folder / f"{uuid.uuid4().hex}.db")
        stores: dict[str, Any] = {
            "session_service": service,
            "artifact_service": InMemoryArtifactService(),
        }
        queue = self.queue = f"test-{uuid.uuid4().hex}"
        options = WorkerOptions(task_queue=queue)
        runners = [Runner(app=app, client=self._client, task_queue=queue, **stores) for app in apps]
        try:
            async with worker(self._client, apps=apps, options=options, **stores):
                yield runners
        finally:
            for runner in runners:
                await runner.close()
            await service.close()


async def _turn(runner: Runner, near: Runner, **sent: Any) -> Exception | None:
    mine, other = await asyncio.gather(_sent(runner, **sent), _sent(near))
    assert isinstance(other, list), type(other)
    assert gist(other[-1]) == "near text fine"
    return None if isinstance(mine, list) else mine


async def _sent(runner: Runner, message: Any = "hello", **more: Any) -> list[Event] | Exception:
    """Send a message; an error is returned, as one without a text breaks pytest if a test leaks it.

    For the same reason no assertion below shows an error, or a text that may be none.
    """
    async with asyncio.timeout(PATIENCE):
        (found,) = await asyncio.gather(send(runner, message, **more), return_exceptions=True)
    assert isinstance(found, (list, Exception)), type(found)
    return found


async def _looks_whole(runner: Runner, error: Exception | None) -> None:
    """Every call has its response, an error is the last event, and the next message runs."""
    log = await stored(runner)
    called = [item.id for event in log for item in event.get_function_calls()]
    answered = [item.id for event in log for item in event.get_function_responses()]
    assert sorted(map(str, called)) == sorted(map(str, answered))
    if error is not None:
        code, message = describe(error)
        is_storable = storable(message) == message
        assert is_storable
        assert len(message.encode()) <= MAX_MESSAGE
        if log:
            is_stored = (log[-1].error_code, log[-1].error_message) == (code, message)
            assert is_stored
    again = await _sent(runner, "again")
    assert isinstance(again, list), type(again)
    assert gist(again[-1]) == f"{again[-1].author} text next"


def say(value: str = "next") -> types.Content:
    """A text of the model."""
    return types.Content(role="model", parts=[types.Part(text=value)])


def scripted(*replies: Any) -> ScriptedModel:
    """A model with these replies to hello, and to again: next."""

    def reply(request: LlmRequest) -> Any:
        texts = [part.text for content in request.contents for part in content.parts or []]
        if "again" in texts:
            return "next"
        turn = sum(content.role == "model" for content in request.contents)
        return replies[turn] if turn < len(replies) else "done"

    return ScriptedModel(replies=reply)


def ran(value: Any = "ok") -> Any:
    """Note that the code under test runs, and return its value."""
    RUNS.append("ran")
    return value


def once(value: Callable[[], Any]) -> Any:
    """What it makes the first time; None afterwards."""
    RUNS.append("ran")
    return value() if len(RUNS) == 1 else None


def with_tool(function: Any, **fields: Any) -> LlmAgent:
    """An agent whose model calls the function."""
    tool = FunctionTool(function, name="tool")
    return LlmAgent(name="a", model=scripted(call("tool")), tools=[tool], **fields)
