"""Rebuilds lost parts of sessions by repeating the recorded operations in memory.

The activities that first performed the operations repeat them in order, on an in-memory copy of the
real store. The difference afterwards is what the real store lacks. Histories do not contain users'
answers and closing events, but the activities derive them. Each operation must have the result that
its history records. Otherwise the histories are incomplete, and the session is not changed.

If other events were appended in the meantime, the copy has only the events before them. The lost
events are then put after the appended ones, as if their invocations had been paused in between.
"""

import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from math import inf
from typing import NamedTuple

from durable_adk.activities.dependencies import Dependencies
from durable_adk.activities.invocation.checkpoint import save_checkpoint, save_journal
from durable_adk.activities.invocation.close import close_invocation
from durable_adk.activities.invocation.open import open_invocation
from durable_adk.activities.invocation.pause import pause_invocation, take_answer
from durable_adk.agents.llm_agent import LlmAgent
from durable_adk.apps.app import App
from durable_adk.apps.registry import AppRegistry
from durable_adk.errors import (
    DurableAdkError,
    EventConflictError,
    InvocationTerminatedError,
    as_detail,
)
from durable_adk.events.event import Event
from durable_adk.ops.doctor.operation_log import Operation, OperationLog
from durable_adk.ops.doctor.sources import session_records
from durable_adk.ops.doctor.started_tool_calls import started_note
from durable_adk.sessions.in_memory_session_service import InMemorySessionService
from durable_adk.sessions.log.rebuild import Rebuilt, RebuiltNote
from durable_adk.sessions.records import InvocationRecord, Status
from durable_adk.sessions.session import SessionKey
from durable_adk.sessions.session_log import SessionLog
from durable_adk.wire.checkpoint import CHECKPOINT, JOURNAL, SaveCheckpointStep, SaveJournalStep
from durable_adk.wire.steps import (
    AnswerStep,
    AnswerTaken,
    CloseStep,
    CommitStep,
    DynamicNodes,
    EarlyCommit,
    Ending,
    Opened,
    OpenStep,
    PauseStep,
    Step,
    StepResult,
)


class LogPosition(NamedTuple):
    """The position of an operation in its session: epochs are ordered, and events within them."""

    epoch: int
    seq: float
    """Sequence number of its event; 0 if it only acquired the lease, infinity if it released it."""


@dataclass(frozen=True)
class RebuildResult:
    """The result of repeating a session's operations."""

    rebuilt: Rebuilt | None
    """None if the histories are incomplete."""
    failure: str = ""
    forked: bool = False
    """Whether the lost events follow other events that were appended in their place."""


@dataclass(frozen=True)
class _Fork:
    """The point where a session and its histories diverge."""

    common: int
    """Number of events in both."""
    revision: int
    """Number of events in the session."""
    common_epoch: int
    """Last epoch of the invocations in both."""
    epoch: int
    """Last epoch of the session's invocations."""

    def moved(self, seq: int) -> int:
        """Return the new sequence number of a lost event."""
        return seq if seq <= self.common else seq - self.common + self.revision

    def record(self, record: InvocationRecord) -> InvocationRecord:
        """Return the record of an invocation with lost events, with their new numbers."""
        changed: dict[str, int] = {"start_seq": self.moved(record.start_seq)}
        if record.end_seq is not None:
            changed["end_seq"] = self.moved(record.end_seq)
        if record.epoch > self.common_epoch:
            changed["epoch"] = record.epoch - self.common_epoch + self.epoch
        return record.model_copy(update=changed)


def position_of(operation: Operation) -> LogPosition | None:
    """Return an operation's position; None if it changed nothing, or if its effect is unknown."""
    position: LogPosition | None = None
    match operation.step, operation.result:
        case OpenStep() as step, Opened(record=InvocationRecord() as record):
            # If another workflow opened the invocation, this one changed nothing.
            if record.lease_owner == step.lease_owner:
                position = LogPosition(record.epoch, record.start_seq)
        case CommitStep() as step, int() as seq:
            position = LogPosition(step.epoch, seq)
        case AnswerStep(), AnswerTaken(refused=None) as taken:
            position = LogPosition(taken.epoch, taken.seq)
        case PauseStep() as step, result if operation.done and result is not False:
            position = LogPosition(step.epoch, inf)
        case CloseStep(), Ending() as ending:
            position = LogPosition(ending.record.epoch, inf)
        case Step(early_commit=EarlyCommit() as early_commit), StepResult(seq=int() as seq):
            position = LogPosition(early_commit.epoch, seq)
        case Step() as step, StepResult(dynamic=DynamicNodes(last_event_id=str()) as dynamic):
            # Called nodes have stored it; of the step itself there is no event yet.
            position = LogPosition(step.run_epoch or 0, dynamic.revision)
        case _:
            pass
    return position


def is_stored(
    operation: Operation,
    position: LogPosition,
    event_ids: Collection[str],
    record: InvocationRecord | None,
) -> bool:
    """Return whether a store has the effect of an operation.

    Args:
        operation: An operation with a position.
        position: Its position.
        event_ids: The ids of the session's stored events.
        record: The stored record of the operation's invocation.
    """
    if 0 < position.seq < inf:
        return event_id(operation) in event_ids
    if record is None or record.epoch < position.epoch:
        return False
    match operation.step:
        case PauseStep():
            return record.epoch > position.epoch or record.status is not Status.RUNNING
        case CloseStep():
            return record.status.closed
        case _:
            return True


def event_id(operation: Operation) -> str:
    """Return the id of the event that an operation stored."""
    match operation.step, operation.result:
        case CommitStep() as step, _:
            return step.event.id
        case _, StepResult(seq=None, dynamic=DynamicNodes(last_event_id=str() as name)):
            return name
        case _, StepResult(event=Event() as event):
            return event.id
        case step, _:
            return step.event_id


@dataclass
class SessionRebuild:
    """Rebuilds sessions of a store in an in-memory store."""

    store: SessionLog
    scratch: InMemorySessionService = field(default_factory=InMemorySessionService)
    _stored_ids: dict[SessionKey, set[str]] = field(default_factory=dict[SessionKey, set[str]])
    """The ids of the events in the real store, up to a fork."""
    _forks: dict[SessionKey, _Fork] = field(default_factory=dict[SessionKey, _Fork])
    _times: dict[tuple[SessionKey, str], float] = field(
        default_factory=dict[tuple[SessionKey, str], float]
    )
    """The last change of each invocation's status, according to the histories."""
    _create_times: dict[SessionKey, float] = field(default_factory=dict[SessionKey, float])
    _last_epochs: dict[tuple[SessionKey, str], int] = field(
        default_factory=dict[tuple[SessionKey, str], int]
    )
    """The last epoch of each invocation."""
    _roots: dict[str, str] = field(default_factory=dict[str, str])
    """The name of each app's root agent."""
    _failures: dict[SessionKey, str] = field(default_factory=dict[SessionKey, str])

    async def run(
        self, logs: Mapping[SessionKey, Sequence[OperationLog]]
    ) -> dict[SessionKey, RebuildResult]:
        """Repeat the operations whose effects the store lacks.

        Args:
            logs: By session, the logs of all workflows whose invocations have not ended in the
                store.
        """
        for key, several in logs.items():
            await self._load(key, several)
        ordered = _in_order(logs)
        self._last_epochs.update(
            {(key, one.step.invocation_id): position.epoch for key, position, one in ordered}
        )
        for key, _, one in ordered:
            if isinstance(one.result, Opened) and one.step.tool_run is None:
                self._roots[key.app_name] = one.result.manifest.name
        for key, position, one in ordered:
            if key in self._failures or await self._is_stored(key, one, position):
                continue
            try:
                await self._repeat(key, one, position)
            except DurableAdkError as error:
                self._failures[key] = error.message
        return {key: await self._result(key, several) for key, several in logs.items()}

    async def _load(self, key: SessionKey, logs: Iterable[OperationLog]) -> None:
        """Copy a session of the real store, up to the first event that no history has."""
        session = await self.store.get_session(
            app_name=key.app_name, user_id=key.user_id, session_id=key.session_id
        )
        events = await self.store.read_events(key)
        records = await session_records(self.store, key)
        common = _common(logs, {item.event.id for item in events})
        if common < len(events):
            if await self.store.active_invocation(key) is not None:
                self._failures[key] = "an invocation is active in it; look again when it has ended"
            creation = await self.store.read_creation(key)
            created = creation.epoch if creation else 0
            epoch = max((record.epoch for record in records), default=created)
            records = [record for record in records if record.start_seq <= common]
            common_epoch = max((record.epoch for record in records), default=created)
            self._forks[key] = _Fork(common, len(events), common_epoch, epoch)
            events = events[:common]
        self._stored_ids[key] = {item.event.id for item in events}
        await self._delete_earlier(key)
        if session is None:
            return
        initial = await self.store.read_initial_state(key)
        await self.scratch.create_session(
            app_name=key.app_name, user_id=key.user_id, session_id=key.session_id, state=initial
        )
        awaiting = _of(records, await self.store.read_awaiting(key))
        loaded = Rebuilt(key=key, after=0, events=events, records=records, awaiting=awaiting)
        await self.scratch.rebuild([loaded])

    async def _delete_earlier(self, key: SessionKey) -> None:
        """Continue the epochs of a deleted session with this name."""
        creation = await self.store.read_creation(key)
        if creation is not None and creation.epoch > 0:
            earlier = Rebuilt(key=key, after=0, epoch=creation.epoch, deleted=True)
            await self.scratch.rebuild([earlier])

    async def _is_stored(
        self, key: SessionKey, operation: Operation, position: LogPosition
    ) -> bool:
        record = await self.scratch.get_invocation(key, operation.step.invocation_id)
        return is_stored(operation, position, self._stored_ids[key], record)

    async def _repeat(self, key: SessionKey, operation: Operation, position: LogPosition) -> None:
        deps = _deps(self.scratch, operation)
        await self._repeat_unrecorded_pause(key, position)
        active = await self.scratch.active_invocation(key)
        match operation.step:
            case OpenStep() as step:
                opened = await open_invocation(deps, step)
                self._check(key, operation, seq=opened.record.start_seq if opened.record else 0)
                self._create_times.setdefault(key, operation.result.record.update_time)
                if active is not None:  # the opening ended it, because its lease owner was gone
                    self._times[key, active.invocation_id] = step.timestamp
            case AnswerStep() as step if operation.result.delivered is not None:
                await self._resume(key, step)
                await self._commit(key, operation, position)
            case AnswerStep() as step:
                taken = await take_answer(deps, step)
                self._check(key, operation, seq=taken.seq)
            case PauseStep() as step:
                # The revision is not checked: later events may already be stored.
                await pause_invocation(deps, step.model_copy(update={"revision": None}))
                self._check(key, operation)
            case CloseStep() as step:
                author = step.author or self._roots.get(key.app_name, "")
                ending = await close_invocation(deps, step.model_copy(update={"author": author}))
                self._check(key, operation, seq=ending.record.end_seq or 0)
            case _:
                await self._commit(key, operation, position)

    async def _repeat_unrecorded_pause(self, key: SessionKey, position: LogPosition) -> None:
        """Pause the active invocation if an unrecorded attempt had paused it.

        The worker died after the pause, and the next worker found the answer already stored. Only
        the epochs show that: the active invocation later holds the lease with a higher epoch.
        """
        active = await self.scratch.active_invocation(key)
        if active is None or not active.epoch < position.epoch:
            return
        if self._last_epochs.get((key, active.invocation_id), 0) > active.epoch:
            await self.scratch.pause_invocation(
                key, invocation_id=active.invocation_id, epoch=active.epoch
            )

    async def _resume(self, key: SessionKey, step: AnswerStep) -> None:
        """Have an invocation whose task agent waited take the lease for its message."""
        record = await self.scratch.get_invocation(key, step.invocation_id)
        if record is not None and record.status is Status.PAUSED:
            await self.scratch.resume_invocation(
                key,
                invocation_id=step.invocation_id,
                lease_owner=step.lease_owner,
                user_event=None,
            )

    async def _commit(self, key: SessionKey, operation: Operation, position: LogPosition) -> None:
        match operation.step, operation.result:
            case CommitStep(event=event, closing=closing), _:
                pass
            case _, AnswerTaken(delivered=Event() as event):
                closing = None
            case _, StepResult(seq=int(), event=Event() as event, closed=closed):
                closing = Status.COMPLETED if closed else None
            case _:
                raise _untold(int(position.seq))
        seq = await self.scratch.commit_event(
            key,
            event,
            invocation_id=operation.step.invocation_id,
            epoch=position.epoch,
            closing=closing,
        )
        self._check(key, operation, seq=seq)
        if closing is not None:
            self._times[key, operation.step.invocation_id] = event.timestamp

    def _check(self, key: SessionKey, operation: Operation, *, seq: int = 0) -> None:
        """Check that an operation had its recorded result, and record the time of a new status.

        Raises:
            EventConflictError: The result differs: the store had a write that no history has.
        """
        expected, at = 0, operation.at
        match operation.result:
            case Opened(record=InvocationRecord() as record):
                expected, at = record.start_seq, record.update_time
            case Ending(record=record):
                expected, at = record.end_seq or 0, record.update_time
            case StepResult(seq=int() as number) | AnswerTaken(seq=number):
                expected = number
            case int() as number:
                expected = number
            case _:
                pass
        if seq != expected:
            # An invocation's end has no number of its own: it follows the last event.
            after = isinstance(operation.result, Ending) and seq < expected
            raise _untold(min(seq, expected) + after)
        if isinstance(operation.step, (OpenStep, CloseStep, PauseStep, AnswerStep)):
            self._times[key, operation.step.invocation_id] = at

    async def _result(self, key: SessionKey, logs: Iterable[OperationLog]) -> RebuildResult:
        fork = self._forks.get(key)
        if fork is not None and key not in self._failures:
            await self._abandon_active(key)
        if key in self._failures:
            return RebuildResult(None, self._failures[key])
        after = len(self._stored_ids[key])
        events = await self.scratch.read_events(key, after=after)
        records: list[InvocationRecord] = []
        for record in await session_records(self.scratch, key):
            at = self._times.get((key, record.invocation_id))
            if at is not None:
                records.append(record.model_copy(update={"update_time": at}))
        if fork is not None:
            after = fork.revision
            events = [item.model_copy(update={"seq": fork.moved(item.seq)}) for item in events]
            records = [fork.record(record) for record in records]
        started = [step for log in logs for step in log.started_calls]
        notes = [note for step in started if (note := started_note(step))]
        for log in logs:
            notes += await self._continuations(key, log) if log.is_open else []
        return RebuildResult(
            Rebuilt(
                key=key,
                after=after,
                events=events,
                records=records,
                awaiting=_of(records, await self.scratch.read_awaiting(key)),
                notes=notes,
                create_time=self._create_times.get(key, 0.0),
            ),
            forked=fork is not None,
        )

    async def _continuations(self, key: SessionKey, log: OperationLog) -> list[RebuiltNote]:
        """Return the checkpoints and journals from which a workflow continues as new."""
        deps = Dependencies(registry=AppRegistry([]), sessions=self.scratch)
        names = set[str]()
        for one in log.operations:
            match one.step:
                case SaveCheckpointStep() as step if one.done:
                    # Use the recorded digest: another release may compute another one.
                    await save_checkpoint(deps, step.model_copy(update={"digest": one.result}))
                    names.add(step.invocation_id)
                case SaveJournalStep() as step if one.done:
                    await save_journal(deps, step)
                    names.add(step.invocation_id)
                case _:
                    pass
        return [
            RebuiltNote(name, kind, note.name, note.body)
            for name in names
            for kind in (CHECKPOINT, JOURNAL)
            for note in await self.scratch.read_notes(key, invocation_id=name, kind=kind)
        ]

    async def _abandon_active(self, key: SessionKey) -> None:
        """End the invocation that would hold the lease: other invocations have held it since."""
        active = await self.scratch.active_invocation(key)
        if active is None:
            return
        name = active.invocation_id
        error = InvocationTerminatedError(
            f"Invocation {name!r} was lost with its session store, which was written to before it "
            "was put back."
        )
        step = CloseStep(
            key=key,
            invocation_id=name,
            epoch=active.epoch,
            status=Status.ABANDONED,
            author=self._roots.get(key.app_name, key.app_name),
            timestamp=time.time(),
            error=as_detail(error),
        )
        deps = Dependencies(registry=AppRegistry([]), sessions=self.scratch)
        self._times[key, name] = (await close_invocation(deps, step)).record.update_time


def _untold(seq: int) -> EventConflictError:
    return EventConflictError(
        f"event {seq} is in no history: it was appended outside of an invocation, or by one that "
        "Temporal has deleted, or its worker died before it could report the event to Temporal; or "
        "a node gave it that another node has called, or that runs for each item of a list"
    )


def _of(records: Iterable[InvocationRecord], names: Iterable[str]) -> list[str]:
    """Return those of the names that records have."""
    known = {record.invocation_id for record in records}
    return [name for name in names if name in known]


def _common(logs: Iterable[OperationLog], stored: Collection[str]) -> int:
    """Return the number of a session's events before the first lost or foreign one."""
    sequence_numbers = [
        position.seq
        for log in logs
        for one in log.operations
        if (position := position_of(one)) and 0 < position.seq < inf and event_id(one) not in stored
    ]
    return min(len(stored), int(min(sequence_numbers)) - 1) if sequence_numbers else len(stored)


def _in_order(
    logs: Mapping[SessionKey, Iterable[OperationLog]],
) -> list[tuple[SessionKey, LogPosition, Operation]]:
    """Return the effective operations: by position within a session, by time across sessions.

    Sessions depend on each other through shared state, and because an agent used as a tool starts
    with its caller's state.
    """
    timed: list[tuple[float, SessionKey, LogPosition, Operation]] = []
    for key, several in logs.items():
        every = [operation for log in several for operation in log.operations]
        placed = [(position, one) for one in every if (position := position_of(one))]
        placed.sort(key=lambda item: item[0])
        times = accumulate((one.at for _, one in placed), max)
        timed += [(at, key, *item) for at, item in zip(times, placed, strict=True)]
    timed.sort(key=lambda item: item[0])
    return [(key, position, one) for _, key, position, one in timed]


async def _is_never_alive(lease_owner: str) -> bool:
    """Treat each lease owner as dead: one whose lease was taken over was dead at that time."""
    del lease_owner
    return False


def _deps(scratch: InMemorySessionService, operation: Operation) -> Dependencies:
    """Return the activities' dependencies, with only the name of the app's root agent."""
    registry = AppRegistry([])
    if isinstance(operation.step, OpenStep) and isinstance(operation.result, Opened):
        root = LlmAgent(name=operation.result.manifest.name)
        registry = AppRegistry([App(name=operation.step.key.app_name, root_agent=root)])
    return Dependencies(registry=registry, sessions=scratch, is_alive=_is_never_alive)
