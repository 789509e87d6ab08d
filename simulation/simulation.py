"""One schedule: a scenario run to its end under a plan."""

import json
import sys
import time
from collections import Counter
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from durable_adk.activities.dependencies import Dependencies
from durable_adk.events import Event
from durable_adk.sessions.lease_owner import TemporalLeaseOwner
from durable_adk.sessions.log import sessions
from durable_adk.sessions.log.entry import Entry
from durable_adk.sessions.log.queue import live
from durable_adk.sessions.log.storage import Window
from durable_adk.sessions.records import InvocationRecord
from durable_adk.sessions.session import SessionKey
from durable_adk.sessions.sql.tables import Tables
from durable_adk.wire.messages import InvocationAnswer, WhenBusy
from simulation.attempts import SimulatedSessions, gate, skew
from simulation.ledger import Ledger, opened
from simulation.loop import Clock
from simulation.scenario import Input, Scenario
from simulation.schedule import Plan, Point
from simulation.server import Item, Server
from simulation.stored_events import bare
from simulation.workflow_instance import TaskFailedError
from simulation.workflow_run import NonDeterminismError, WorkflowRun

MAX_STEPS = 3_000
"""More than any scenario needs: what takes longer goes round in circles (I11)."""
KEY = SessionKey("app", "u", "s")


@dataclass(frozen=True)
class ChildSession:
    """What is left of the session of an agent that is used as a tool."""

    key: SessionKey
    events: list[dict[str, Any]]
    state: dict[str, str]
    record: InvocationRecord | None
    lease: str | None


@dataclass(kw_only=True)
class Result:
    """What a schedule came to."""

    scenario: Scenario
    bodies: list[str]
    """The stored events, as they are stored."""
    state: dict[str, str]
    records: dict[str, InvocationRecord]
    accepted: list[str]
    """The invocations that were started."""
    child_sessions: list[ChildSession]
    """The sessions of agents that were asked as tools are."""
    runs: list[WorkflowRun]
    lease: str | None
    tickets: list[str]
    """The messages that still wait for their turn."""
    cleared: list[str] | None
    """The events that a session had when it was created again; None: it was not."""
    ledger: Ledger
    again: Counter[str]
    """By activity, the attempts that were not the first."""
    done: list[str]
    """What went wrong, and what clients did, in order."""
    faults: int
    """How much of it went wrong, or came at an odd moment: a client's usual message did not."""
    problems: list[str] = field(default_factory=list[str])

    @cached_property
    def events(self) -> list[dict[str, Any]]:
        """The stored events as JSON."""
        return [json.loads(body) for body in self.bodies]

    @cached_property
    def bare(self) -> list[str]:
        """See `normal.bare`."""
        return [bare(body) for body in self.bodies]


class Simulation:
    """A scenario, a server, workers, and the plan that decides among them.

    Args:
        scenario: What is played.
        plan: Who decides.
        replayed: The histories of this scenario that are known to replay; more are added.
    """

    def __init__(self, scenario: Scenario, plan: Plan, replayed: set[bytes] | None = None) -> None:
        self.scenario = scenario
        self._plan = plan
        self._replayed = set[bytes]() if replayed is None else replayed
        self.clock = Clock(skew)
        self.cleared: list[str] | None = None
        """Ids of the events that the session was given when it was created again."""
        self._deployed = False
        self._sent = 0
        self.sessions = SimulatedSessions()
        self.server = Server(self.clock, self._world, self.is_stored)
        self.ledger = opened()
        self.inputs: list[Input] = list(scenario.inputs)
        self.done: list[str] = []
        self._faults = 0

    def _world(self) -> Dependencies:
        return Dependencies(
            registry=self.scenario.registry(deployed=self._deployed),
            registry_name=self.scenario.name,
            sessions=self.sessions,
            is_alive=self._is_alive,
            interrupt=self._interrupt,
            steer=self._steer,
        )

    async def _is_alive(self, lease_owner: str) -> bool:
        return self._held(lease_owner) is not None

    def _held(self, lease_owner: str) -> WorkflowRun | None:
        """The open run of a lease owner."""
        held = TemporalLeaseOwner.parse(lease_owner)
        runs = (run for run in self.server.runs if held and run.first_run_id == held.first_run_id)
        return next((run for run in runs if run.closed is None), None)

    async def _interrupt(self, key: SessionKey, record: InvocationRecord) -> None:
        del key
        await gate("tell.before")
        run = self._held(record.lease_owner)
        if run is not None:
            self.server.cancel(run)
        await gate("tell.after")

    async def _steer(
        self, key: SessionKey, record: InvocationRecord, answer: InvocationAnswer
    ) -> None:
        del key
        await gate("tell.before")
        run = self._held(record.lease_owner)
        if run is not None:
            told = answer.model_dump(mode="json", by_alias=True, exclude_none=True)
            self.server.signal(run, "answer", told)
        await gate("tell.after")

    # ----- what inputs and checks look at

    def bodies(self) -> list[str]:
        """The stored events."""
        rows = self.sessions.now(lambda tables: tables.events(KEY, Window()))
        return [row.body for row in rows]

    def is_stored(self, step: Any) -> bool:
        """Whether the event that a step is to make is stored."""
        name = getattr(step, "event_id", "")
        key = getattr(step, "key", KEY)
        return self.sessions.now(lambda tables: tables.find_event(key, name)) is not None

    def record(self, invocation_id: str) -> InvocationRecord | None:
        """The invocation as the store has it."""
        return self.sessions.now(lambda tables: tables.invocation(KEY, invocation_id))

    # ----- running

    def run(self) -> Result:
        """Run until nothing can happen any more."""
        with _clocked(self.clock):
            problems: list[str] = []
            try:
                for message in self.scenario.messages:
                    self.send(message)
                self._play()
                self._replay()
            except (NonDeterminismError, TaskFailedError) as error:
                problems.append(f"I13: {type(error).__name__}: {error}")
            except StuckError as error:
                problems.append(f"I11: {error}")
            result = self._result(problems + self.ledger.problems)
            self.close()
        return result

    def close(self) -> None:
        """Throw everything away."""
        for run in self.server.runs:
            run.evict()
        self.server.executor.close()
        self.server.loop.close()

    def send(self, message: str, when_busy: WhenBusy | None = None) -> None:
        """Start an invocation: i1, i2 and so on."""
        self._sent += 1
        invocation_id = f"i{self._sent}"
        request = {
            "app": KEY.app_name,
            "user": KEY.user_id,
            "session": KEY.session_id,
            "message": message,
            "invocation_id": invocation_id,
            "state_delta": {"sent": invocation_id},
        }
        if when_busy is not None:
            request["when_busy"] = when_busy.value
        rolls = self.scenario.roll_over_after
        self.server.start(invocation_id, request, roll_over_after=rolls)

    def clear(self) -> None:
        """Delete the session, create it again, and append the messages that were in it."""
        events = [json.loads(body) for body in self.bodies()]
        sent = [event for event in events if event["id"].endswith(".0")]
        self.cleared = [event["id"] for event in sent]

        def clear(tables: Tables) -> None:
            sessions.remove(tables, KEY)
            sessions.create(tables, KEY, {})
            for revision, event in enumerate(sent):
                sessions.append(tables, KEY, Entry.of(Event.model_validate(event)), revision)

        self.sessions.now(clear)

    def deploy(self) -> None:
        """Replace the first worker, after its attempts have ended, by one of the next release."""
        self._deployed = True
        self.server.workers[0].restart()

    def _play(self) -> None:
        for _ in range(MAX_STEPS):
            items = self._items()
            if not items:
                if all(run.closed is not None for run in self.server.runs):
                    return
                now = self.server.next_time(steps=True)
                if now is None:
                    raise StuckError("Nothing can happen, but not all invocations have ended.")
                self.server.advance_time(now)
            else:
                self._step(items[self._plan.choose(items)])
        raise StuckError("It goes round in circles.")

    def _items(self) -> list[Item]:
        """What may happen next; what is only likely when all else is done comes last."""
        server, wild = self.server, self._plan.wild
        if wild and self._plan.leap() and (now := server.next_time(steps=False)) is not None:
            server.advance_time(now)
        items = server.enabled()
        if wild or not items:
            inputs = (one for one in self.inputs if not one.optional)
            items += [("input", one) for one in inputs if one.ready(self)]
        if wild or not items:
            items += server.sleepers(("late", "ghost") if wild else ("late",))
        if not items and all(run.closed is not None for run in server.runs):
            items = server.sleepers(("ghost",))
        return items

    def _step(self, item: Item) -> None:
        faults = self.server.faults(item)
        anywhere = (one for one in self.inputs if one.anywhere or one.optional)
        hurried = [one for one in anywhere if one.ready(self)]
        point = Point(label(item), (*faults, *(one.name for one in hurried)))
        fault = self._plan.fault(point)
        if fault is None:
            self._happen(item)
            return
        self._faults += 1
        one = next((one for one in hurried if one.name == fault), None)
        if one is None:
            self.done.append(f"{fault} at {point.label}")
            self.server.fail(item, fault)
        else:
            self._give(one, f" at {point.label}")

    def _happen(self, item: Item) -> None:
        kind, whom = item
        if kind == "input":
            self._give(whom)
        else:
            worker = self._plan.worker(whom.attempts) if kind == "start" else 0
            self.server.happen(item, worker=worker)

    def _give(self, one: Input, where: str = "") -> None:
        self.inputs.remove(one)
        self.done.append(one.name + where)
        one.give(self)

    def _replay(self) -> None:
        """Replay every history (I13); equal ones once."""
        for run in self.server.runs:
            digest = run.digest()
            if digest not in self._replayed:
                run.replayed(self.server.loop).evict()
                self._replayed.add(digest)

    def _result(self, problems: list[str]) -> Result:
        now = self.sessions.now
        head, state = now(lambda tables: (tables.head(KEY), tables.state(KEY)))
        waiting = now(lambda tables: live(tables, KEY, self.clock.now))
        children = now(
            lambda tables: [
                _child_session(tables, key) for key in tables.sessions_of(KEY) if key != KEY
            ]
        )
        sent = [f"i{number}" for number in range(1, self._sent + 1)]
        records = {name: record for name in sent if (record := self.record(name))}
        return Result(
            scenario=self.scenario,
            bodies=self.bodies(),
            state=state,
            records=records,
            accepted=sent,
            child_sessions=children,
            runs=self.server.runs,
            lease=head.lease_invocation_id if head else None,
            tickets=[one.invocation_id for one in waiting],
            cleared=self.cleared,
            ledger=self.ledger,
            again=Counter(a.activity.name for a in self.server.executor.all if a.number > 1),
            done=self.done,
            faults=self._faults,
            problems=problems,
        )


def _child_session(tables: Tables, key: SessionKey) -> ChildSession:
    head, records = tables.head(key), [tables.invocation(key, one) for one in ("i1", "i2")]
    return ChildSession(
        key=key,
        events=[json.loads(row.body) for row in tables.events(key, Window())],
        state=tables.state(key),
        record=next((record for record in records if record), None),
        lease=head.lease_invocation_id if head else None,
    )


class StuckError(Exception):
    """The invocation does not come to an end (I11)."""


def label(item: Item) -> str:
    """What happens, as `Point.label` has it."""
    kind, whom = item
    match kind:
        case "task" | "end":
            return f"{kind} {len(whom.history)} of {whom.run_id}"
        case "start":
            return f"start {whom.name}"
        case "gate":
            activity = whom.attempt.activity
            return f"{activity.name}.{activity.seq}/{whom.attempt.number} {whom.name}"
        case "cancel":
            return f"cancel {whom.activity.name}.{whom.activity.seq}"
        case _:
            return f"{kind} {whom.name}"


_CLOCKED = [
    module
    for name, module in sorted(sys.modules.items())
    if name.startswith("durable_adk.") and getattr(module, "time", None) is time
]
"""Our modules that look at a clock."""


@contextmanager
def _clocked(clock: Clock) -> Generator[None]:
    """Have all of them look at that one."""
    modules: list[Any] = _CLOCKED
    for module in modules:
        module.time = clock
    try:
        yield
    finally:
        for module in modules:
            module.time = time
