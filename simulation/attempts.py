"""Attempts of the real activities, on workers that may die or freeze at every gate."""

import asyncio
import json
import threading
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from contextvars import ContextVar, copy_context
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any, TypeVar

from temporalio import activity
from temporalio.api.common.v1 import Payload
from temporalio.common import RawValue
from temporalio.testing import ActivityEnvironment

from durable_adk.activities.definitions import InvocationActivities
from durable_adk.activities.dependencies import Dependencies
from durable_adk.activities.effects import EFFECTS, EffectPerformer
from durable_adk.sessions.in_memory_session_service import DatabaseInMemory
from durable_adk.sessions.session_log import SessionLog
from durable_adk.sessions.sql.tables import Tables
from durable_adk.wire.converter import data_converter
from simulation.loop import VirtualLoop

T = TypeVar("T")
_INFO = ActivityEnvironment.default_info()
_CONVERTER = data_converter.payload_converter
_CURRENT: ContextVar["Attempt"] = ContextVar("attempt")
_PERFORMED: ContextVar["Performed | None"] = ContextVar("performed")
THEIRS: dict[str, Callable[..., Any]] = {}
"""Activities of others, by name; their workers are lost as ours are."""


@dataclass(eq=False, slots=True)
class Scheduled:
    """An activity as the server or, if it is local, the worker's task knows it."""

    run: Any
    seq: int
    name: str
    activity_id: str
    payloads: list[Payload]
    local: bool
    max_attempts: int
    cancellation: int = 0
    attempts: int = 0
    not_before: float = 0.0
    cancel_requested: bool = False
    current: "Attempt | None" = None
    done: bool = False
    details: tuple[Any, ...] = ()
    """Of the last heartbeat."""

    @classmethod
    def of(cls, run: Any, command: Any, *, local: bool) -> "Scheduled":
        """Return the activity that a run's command schedules."""
        return cls(
            run,
            command.seq,
            command.activity_type,
            command.activity_id,
            list(command.arguments),
            local,
            command.retry_policy.maximum_attempts,
            command.cancellation_type,
        )


@dataclass(eq=False, slots=True)
class Gate:
    """A point at which an attempt waits until the scheduler lets it continue."""

    attempt: "Attempt"
    name: str
    future: "asyncio.Future[None]"

    @property
    def open(self) -> bool:
        """Whether the attempt has gone on: it was cancelled, or its worker is dead."""
        return self.future.done() or self.attempt.dead


@dataclass(eq=False, slots=True)
class Attempt:
    """One attempt of an activity."""

    activity: Scheduled
    number: int
    gates: list[Gate]
    """Where its gates queue up."""
    worker: int
    is_stored: Callable[[Any], bool]
    """Whether the event that a step is to make is stored."""
    others: "Sequence[Attempt]" = ()
    """All attempts of the simulation."""
    lost: bool = False
    """Whether the server has given it up, so that its report is discarded."""
    dead: bool = False
    """Whether its worker is gone, so that it never continues."""
    parked: str = ""
    """When it wakes up again, if it is frozen: ``late`` or ``ghost``."""
    parked_at: int = 0
    """How long the history was then."""
    told: bool = False
    """Whether it knows that it is to end."""
    outcome: Any = None
    over: bool = False
    """Whether the simulation has ended."""
    tasks: list["asyncio.Task[Any]"] = field(default_factory=list["asyncio.Task[Any]"])

    def overtaken(self, kinds: Sequence[str]) -> bool:
        """Whether what it was to do has been done without it; `kinds` may wake up."""
        activity = self.activity
        if "ghost" in kinds:
            return True
        return len(activity.run.history) > self.parked_at if activity.local else activity.done

    @property
    def under_way(self) -> bool:
        """Whether it may still write, perhaps although the server has given it up."""
        return not self.dead and self.outcome is None

    async def stop_at(self, name: str) -> None:
        """Wait at a gate."""
        if self.over:
            raise OverError
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.gates.append(Gate(self, name, future))
        await future


async def gate(name: str) -> None:
    """A place where the scheduler may stop, kill or overtake the running attempt."""
    attempt = _CURRENT.get(None)
    if attempt is not None:
        await attempt.stop_at(name)


@dataclass(frozen=True, slots=True)
class Performed:
    """A step that is performed: alone, or as one of a batch."""

    step: Any
    in_vain: bool
    """Whether the event it is to make was stored when it began (I8, I10)."""


def performed() -> Performed | None:
    """The step whose code is running."""
    return _PERFORMED.get(None)


_perform = EffectPerformer.perform


async def _noting(self: EffectPerformer, step: Any, attempt: Any = None) -> Any:
    """Perform a step, and note which one it is."""
    if (one := current()) is not None:
        _PERFORMED.set(Performed(step, one.is_stored(step)))
    return await _perform(self, step, attempt)


EffectPerformer.perform = _noting


def current() -> "Attempt | None":
    """The attempt whose code is running."""
    return _CURRENT.get(None)


def skew() -> float:
    """By how many seconds the clock of the worker is off that runs this: one is 100 s late."""
    attempt = _CURRENT.get(None)
    return -100.0 * attempt.worker if attempt is not None else 0.0


class _Store:
    """The store in memory, with gates round its transactions."""

    def __init__(self) -> None:
        self.inner = DatabaseInMemory()

    async def read(self, work: Callable[[Tables], T]) -> T:
        attempt = _CURRENT.get(None)
        others = attempt.others if attempt is not None else ()
        if attempt is not None and any(one.under_way for one in others if one is not attempt):
            await attempt.stop_at("read")  # what another one writes may come between two reads
        return await self.inner.read(work)

    async def write(self, work: Callable[[Tables], T]) -> T:
        await gate("write.before")
        result = await self.inner.write(work)
        await gate("write.after")
        return result


class SimulatedSessions(SessionLog):
    """The session service, over a database in memory."""

    def __init__(self) -> None:
        store = _Store()
        super().__init__(store)
        self.now = store.inner.run
        """Runs a transaction without gates, for audits."""


_EFFECTS = {row.name: row for row in EFFECTS}


class _SameLoop:
    """User code in the loop of everything else, which has no threads."""

    async def run(self, work: Any) -> Any:
        return await work


class Worker:
    """A process that runs activities: its caches die with it."""

    def __init__(self, world: Callable[[], Dependencies]) -> None:
        self._world = world
        self.restart()

    def restart(self) -> None:
        """Another process takes its place."""
        effects = EffectPerformer(self._world())
        self._ours = InvocationActivities(effects, _SameLoop())  # pyright: ignore[reportArgumentType]: the same method
        self._made: dict[str, Callable[[Any], Awaitable[Any]]] = {}

    def activity(self, name: str) -> Callable[[Any], Awaitable[Any]]:
        """Return an activity, made when it is first run: a schedule has many workers."""
        if name not in self._made:
            self._made[name] = self._ours._activity(_EFFECTS[name])  # pyright: ignore[reportPrivateUsage]: one of all()
        return self._made[name]


class OverError(Exception):
    """The simulation has ended, and with it an attempt that was still under way."""


class Executor:
    """Runs attempts on the world's loop."""

    def __init__(self, loop: VirtualLoop, is_stored: Callable[[Any], bool]) -> None:
        self._loop = loop
        self._is_stored = is_stored
        self.gates: list[Gate] = []
        self.ended: list[Attempt] = []
        self.all: list[Attempt] = []
        loop.set_task_factory(self._task)

    def start(self, scheduled: Scheduled, worker: Worker, number: int) -> Attempt:
        """Begin the next attempt of an activity."""
        scheduled.attempts += 1
        attempt = Attempt(scheduled, scheduled.attempts, self.gates, number, self._is_stored)
        attempt.others = self.all
        scheduled.current = attempt
        self.all.append(attempt)
        context = copy_context()
        context.run(_CURRENT.set, attempt)
        context.run(_enter, attempt)
        theirs = THEIRS.get(scheduled.name)
        work = self._run(attempt, theirs or worker.activity(scheduled.name))
        self._loop.create_task(work, context=context)
        return attempt

    async def _run(self, attempt: Attempt, function: Callable[..., Any]) -> None:
        try:
            given = self._given(attempt, function)
            outcome: Any = _CONVERTER.to_payload(await function(*given))
        except (asyncio.CancelledError, Exception) as error:  # noqa: BLE001 - all of it is reported
            outcome = error
        attempt.outcome = outcome
        with suppress(OverError):
            await attempt.stop_at("report")
            self.ended.append(attempt)

    def _given(self, attempt: Attempt, function: Callable[..., Any]) -> list[Any]:
        scheduled = attempt.activity
        if scheduled.name in THEIRS:
            return _CONVERTER.from_payloads(scheduled.payloads)
        kind = next(iter(function.__annotations__.values()))
        return _CONVERTER.from_payloads(scheduled.payloads, [kind])

    def cancel(self, attempt: Attempt) -> None:
        """Have the attempt know that it is to end; too late if it has something to report."""
        if attempt.outcome is None:
            attempt.tasks[0].cancel()

    def _task(self, loop: Any, work: Any, context: Any = None) -> "asyncio.Task[Any]":
        task: asyncio.Task[Any] = asyncio.Task(work, loop=loop, context=context)
        owner = context.get(_CURRENT) if context is not None else _CURRENT.get(None)
        if owner is not None:
            owner.tasks.append(task)
        return task

    def close(self) -> None:
        """End the attempts whose workers are dead, so that nothing is left suspended."""
        left = [a for a in self.all if any(not task.done() for task in a.tasks)]
        for attempt in left:
            attempt.over = True
        for stopped in self.gates:
            if not stopped.future.done():
                stopped.future.set_exception(OverError())
        self._loop.drain()
        for attempt in left:
            for task in attempt.tasks:
                task.cancel()
        self._loop.drain()


def _enter(attempt: Attempt) -> None:
    told = attempt.activity
    info = replace(
        _INFO,
        attempt=attempt.number,
        activity_type=told.name,
        activity_id=told.activity_id,
        heartbeat_details=told.details,
    )

    def heartbeat(*details: RawValue) -> None:
        told.details = tuple(json.loads(raw.payload.data) for raw in details)

    stays = threading.Event()
    here = SimpleNamespace(
        info=lambda: info, heartbeat=heartbeat, client=None, worker_shutdown_event=stays
    )
    activity._Context.set(here)  # pyright: ignore[reportArgumentType]: all that our activities ask for
