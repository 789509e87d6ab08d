"""Doing again, in memory, what workflows did to sessions.

The acts of the histories are carried out once more, in their order, by the same activities that
carried them out first, over a store in memory that begins as the real one is. What they make there
is what the real store lacks: answers and the events that seal a session are in no history, but the
activities make them of what is. Each act has to end as its history says; where one does not, the
histories do not tell it all, and the session is left alone.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from math import inf
from typing import NamedTuple

from durable_adk.activities.dependencies import Dependencies
from durable_adk.activities.invocation.close import close_invocation
from durable_adk.activities.invocation.open import open_invocation
from durable_adk.activities.invocation.pause import pause_invocation, take_answer
from durable_adk.agents.llm_agent import LlmAgent
from durable_adk.apps.app import App
from durable_adk.apps.registry import AppRegistry
from durable_adk.errors import DurableAdkError, EventConflictError
from durable_adk.events.event import Event
from durable_adk.ops.doctor.begun import note_of
from durable_adk.ops.doctor.trails import Act, Trail
from durable_adk.sessions.in_memory_session_service import InMemorySessionService
from durable_adk.sessions.log.rebuild import Rebuilt
from durable_adk.sessions.reading import all_invocations
from durable_adk.sessions.records import InvocationRecord, Status
from durable_adk.sessions.session import SessionKey
from durable_adk.sessions.session_log import SessionLog
from durable_adk.wire.steps import (
    AnswerStep,
    AnswerTaken,
    CloseStep,
    CommitStep,
    EarlyCommit,
    Ending,
    Opened,
    OpenStep,
    PauseStep,
    Step,
    StepResult,
)


class Place(NamedTuple):
    """Where an act stands in its session: epochs follow each other, and events within them."""

    epoch: int
    seq: float
    """Of its event; 0: it took the lease only, infinity: it gave the lease back."""


@dataclass(frozen=True)
class Redone:
    """What came of doing a session's acts again."""

    rebuilt: Rebuilt | None
    """None: the histories do not tell it all."""
    failure: str = ""


def place_of(act: Act) -> Place | None:
    """Where an act stands; None: it has changed nothing, or nobody knows what."""
    place: Place | None = None
    match act.step, act.result:
        case OpenStep() as step, Opened(record=InvocationRecord() as record):
            # Another workflow may have opened it; this one then did nothing.
            if record.lease_owner == step.lease_owner:
                place = Place(record.epoch, record.start_seq)
        case CommitStep() as step, int() as seq:
            place = Place(step.epoch, seq)
        case AnswerStep(), AnswerTaken(refused=None) as taken:
            place = Place(taken.epoch, taken.seq)
        case PauseStep() as step, result if act.done and result is not False:
            place = Place(step.epoch, inf)
        case CloseStep(), Ending() as ending:
            place = Place(ending.record.epoch, inf)
        case Step(grant=EarlyCommit() as grant), StepResult(seq=int() as seq):
            place = Place(grant.epoch, seq)
        case _:
            pass
    return place


def is_stored(
    act: Act, place: Place, event_ids: Sequence[str], record: InvocationRecord | None
) -> bool:
    """Whether a store knows of an act already.

    Args:
        act: It has a place.
        place: That.
        event_ids: Of the session's stored events, in their order.
        record: The act's invocation, as stored.
    """
    if 0 < place.seq < inf:
        at = int(place.seq) - 1
        return at < len(event_ids) and event_ids[at] == event_id(act)
    if record is None or record.epoch < place.epoch:
        return False
    match act.step:
        case PauseStep():
            return record.epoch > place.epoch or record.status is not Status.RUNNING
        case CloseStep():
            return record.status.closed
        case _:
            return True


def event_id(act: Act) -> str:
    """Id of the event that an act has stored."""
    match act.step, act.result:
        case CommitStep() as step, _:
            return step.event.id
        case _, StepResult(event=Event() as event):
            return event.id
        case step, _:
            return step.event_id


@dataclass
class Redo:
    """The sessions that are to be rebuilt, and the store in memory."""

    store: SessionLog
    scratch: InMemorySessionService = field(default_factory=InMemorySessionService)
    _known: dict[SessionKey, list[str]] = field(default_factory=dict[SessionKey, list[str]])
    """Ids of the events that the real store has."""
    _times: dict[tuple[SessionKey, str], float] = field(
        default_factory=dict[tuple[SessionKey, str], float]
    )
    """When the status of each invocation was last set, as far as histories tell."""
    _begun: dict[SessionKey, float] = field(default_factory=dict[SessionKey, float])
    _last: dict[tuple[SessionKey, str], int] = field(
        default_factory=dict[tuple[SessionKey, str], int]
    )
    """The last epoch of each invocation."""
    _roots: dict[str, str] = field(default_factory=dict[str, str])
    """By app, the name of its first agent."""
    _failures: dict[SessionKey, str] = field(default_factory=dict[SessionKey, str])

    async def run(self, trails: Mapping[SessionKey, Sequence[Trail]]) -> dict[SessionKey, Redone]:
        """Do the acts again that the store does not know of.

        Args:
            trails: By session, of all workflows whose invocations the store does not know as ended.
        """
        for key in trails:
            await self._load(key)
        acts = _in_order(trails)
        self._last.update({(key, act.step.invocation_id): place.epoch for key, place, act in acts})
        for key, _, act in acts:
            if isinstance(act.result, Opened) and act.step.tool_run is None:
                self._roots[key.app_name] = act.result.manifest.name
        for key, place, act in acts:
            if key in self._failures or await self._is_stored(key, act, place):
                continue
            try:
                await self._do(key, act, place)
            except DurableAdkError as error:
                self._failures[key] = error.message
        return {key: await self._redone(key, several) for key, several in trails.items()}

    async def _load(self, key: SessionKey) -> None:
        """Begin as the real store is."""
        session = await self.store.get_session(
            app_name=key.app_name, user_id=key.user_id, session_id=key.session_id
        )
        self._known[key] = [event.id for event in session.events] if session else []
        await self._delete_earlier(key)
        if session is None:
            return
        initial = await self.store.read_initial_state(key)
        await self.scratch.create_session(
            app_name=key.app_name, user_id=key.user_id, session_id=key.session_id, state=initial
        )
        loaded = Rebuilt(
            key=key,
            after=0,
            events=await self.store.read_events(key),
            records=await records_of(self.store, key),
        )
        await self.scratch.rebuild([loaded])

    async def _delete_earlier(self, key: SessionKey) -> None:
        """Have epochs go on where those of a deleted session of this name ended."""
        creation = await self.store.read_creation(key)
        if creation is not None and creation.epoch > 0:
            await self.scratch.rebuild([Rebuilt(key=key, after=0, epoch=creation.epoch - 1)])
            await self.scratch.delete_session(
                app_name=key.app_name, user_id=key.user_id, session_id=key.session_id
            )

    async def _is_stored(self, key: SessionKey, act: Act, place: Place) -> bool:
        record = await self.scratch.get_invocation(key, act.step.invocation_id)
        return is_stored(act, place, self._known[key], record)

    async def _do(self, key: SessionKey, act: Act, place: Place) -> None:
        deps = _deps(self.scratch, act)
        await self._pause_untold(key, place)
        active = await self.scratch.active_invocation(key)
        match act.step:
            case OpenStep() as step:
                opened = await open_invocation(deps, step)
                self._note(key, act, seq=opened.record.start_seq if opened.record else 0)
                self._begun.setdefault(key, act.result.record.update_time)
                if (
                    active is not None
                ):  # it was ended in the place of its lease owner, which was gone
                    self._times[key, active.invocation_id] = step.timestamp
            case AnswerStep() if act.result.heard is not None:
                await self._commit(key, act, place)
            case AnswerStep() as step:
                taken = await take_answer(deps, step)
                self._note(key, act, seq=taken.seq)
            case PauseStep() as step:
                # What came after it may be stored already.
                await pause_invocation(deps, step.model_copy(update={"revision": None}))
                self._note(key, act)
            case CloseStep() as step:
                author = step.author or self._roots.get(key.app_name, "")
                ending = await close_invocation(deps, step.model_copy(update={"author": author}))
                self._note(key, act, seq=ending.record.end_seq or 0)
            case _:
                await self._commit(key, act, place)

    async def _pause_untold(self, key: SessionKey, place: Place) -> None:
        """Pause who was paused by an attempt that no history knows of.

        The worker died after it, and when another one came to that point the answer was there. Only
        the epochs tell: whoever has the lease now has it under a later one again.
        """
        active = await self.scratch.active_invocation(key)
        if active is None or not active.epoch < place.epoch:
            return
        if self._last.get((key, active.invocation_id), 0) > active.epoch:
            await self.scratch.pause_invocation(
                key, invocation_id=active.invocation_id, epoch=active.epoch
            )

    async def _commit(self, key: SessionKey, act: Act, place: Place) -> None:
        match act.step, act.result:
            case CommitStep(event=event, closing=closing), _:
                pass
            case _, AnswerTaken(heard=Event() as event):
                closing = None
            case _, StepResult(event=Event() as event, closed=closed):
                closing = Status.COMPLETED if closed else None
            case _:
                return
        seq = await self.scratch.commit_event(
            key,
            event,
            invocation_id=act.step.invocation_id,
            epoch=place.epoch,
            closing=closing,
        )
        self._note(key, act, seq=seq)
        if closing is not None:
            self._times[key, act.step.invocation_id] = event.timestamp

    def _note(self, key: SessionKey, act: Act, *, seq: int = 0) -> None:
        """Note when a status was set, and make sure that the act has ended as it did first.

        Raises:
            EventConflictError: It has not: somebody wrote in between, and no history tells what.
        """
        expected, at = 0, act.at
        match act.result:
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
            # What ends an invocation has no place of its own: it comes after the last event.
            after = isinstance(act.result, Ending) and seq < expected
            raise EventConflictError(
                f"event {min(seq, expected) + after} is in no history: it was appended from "
                "outside of an invocation, or by one that Temporal has forgotten, or its worker "
                "died before Temporal had heard of it"
            )
        if isinstance(act.step, (OpenStep, CloseStep, PauseStep, AnswerStep)):
            self._times[key, act.step.invocation_id] = at

    async def _redone(self, key: SessionKey, trails: Iterable[Trail]) -> Redone:
        if key in self._failures:
            return Redone(None, self._failures[key])
        after = len(self._known[key])
        records: list[InvocationRecord] = []
        for record in await records_of(self.scratch, key):
            at = self._times.get((key, record.invocation_id))
            if at is not None:
                records.append(record.model_copy(update={"update_time": at}))
        return Redone(
            Rebuilt(
                key=key,
                after=after,
                events=await self.scratch.read_events(key, after=after),
                records=records,
                notes=[n for trail in trails for step in trail.begun if (n := note_of(step))],
                create_time=self._begun.get(key, 0.0),
            )
        )


async def records_of(store: SessionLog, key: SessionKey) -> list[InvocationRecord]:
    """All invocations of a session."""
    return [record async for _, record in all_invocations(store, **key._asdict())]


def _in_order(
    trails: Mapping[SessionKey, Iterable[Trail]],
) -> list[tuple[SessionKey, Place, Act]]:
    """The acts that changed something, each session's in its order and the sessions' by time.

    Sessions meet in the state that they share, and where an agent that is used as a tool starts
    with its caller's state.
    """
    timed: list[tuple[float, SessionKey, Place, Act]] = []
    for key, several in trails.items():
        placed = [(p, act) for one in several for act in one.acts if (p := place_of(act))]
        placed.sort(key=lambda item: item[0])
        times = accumulate((act.at for _, act in placed), max)
        timed += [(at, key, place, act) for at, (place, act) in zip(times, placed, strict=True)]
    timed.sort(key=lambda item: item[0])
    return [(key, place, act) for _, key, place, act in timed]


async def _nobody_is_alive(lease_owner: str) -> bool:
    """Who did not give its lease back was gone when another took it: the history says so."""
    del lease_owner
    return False


def _deps(scratch: InMemorySessionService, act: Act) -> Dependencies:
    """What the activities work with: of the app only the name of its first agent matters."""
    registry = AppRegistry([])
    if isinstance(act.step, OpenStep) and isinstance(act.result, Opened):
        root = LlmAgent(name=act.result.manifest.name)
        registry = AppRegistry([App(name=act.step.key.app_name, root_agent=root)])
    return Dependencies(registry=registry, sessions=scratch, is_alive=_nobody_is_alive)
