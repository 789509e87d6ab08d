"""Sessions that lack what the histories of their workflows say was committed.

Either the store was restored from a backup, or somebody deleted the session.
"""

import asyncio
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial

from temporalio.client import Client, WorkflowExecutionStatus
from temporalio.service import RPCError, RPCStatusCode

from durable_adk.errors import TemporalUnavailableError
from durable_adk.ops.doctor.findings import Case, Kind, case
from durable_adk.ops.doctor.redo import Redo, Redone, is_stored, place_of, records_of
from durable_adk.ops.doctor.sources import Missing, Sources
from durable_adk.ops.doctor.trails import Trail
from durable_adk.sessions.log.rebuild import Rebuilt
from durable_adk.sessions.records import InvocationRecord
from durable_adk.sessions.session import Creation, SessionKey
from durable_adk.sessions.session_log import SessionLog

PATIENCE = 10.0
"""Seconds a cancelled workflow is given to end itself."""
NEEDS_CODE = "a history cannot be replayed; of a custom agent, say with --target where its code is"


@dataclass
class Compared:
    """The sessions of the histories, as the store has them."""

    regressed: dict[SessionKey, list[Trail]] = field(default_factory=dict[SessionKey, list[Trail]])
    """Those that are in the store, and lack something."""
    missing: dict[SessionKey, list[Trail]] = field(default_factory=dict[SessionKey, list[Trail]])
    """Those that are not in the store, or as empty as if they had been deleted and made anew."""
    replaced: dict[SessionKey, list[Trail]] = field(default_factory=dict[SessionKey, list[Trail]])
    """Those that were deleted for sure: there is a younger one of the name, or a tombstone."""
    doubtful: dict[SessionKey, list[Trail]] = field(default_factory=dict[SessionKey, list[Trail]])
    """Those that only the clocks of several hosts call older than the session of their name."""

    @property
    def keys(self) -> set[SessionKey]:
        """All of them."""
        return {*self.regressed, *self.missing}


async def compare(sources: Sources, trails: Sequence[Trail], *, apps: Collection[str]) -> Compared:
    """Look in the store for what was committed.

    Only for sessions of its own apps, as several stores may share a Temporal. After the histories
    were read: what is committed meanwhile the store has and they have not, which is nothing to
    wonder about.
    """
    by_key: dict[SessionKey, list[Trail]] = {}
    for trail in trails:
        if trail.key is not None and trail.key.app_name in {*apps, sources.app}:
            by_key.setdefault(trail.key, []).append(trail)
    compared = Compared()
    for key, several in by_key.items():
        events = [item.event for item in await sources.sessions.read_events(key)]
        old, doubtful = await _older(sources, key, several)
        own = [trail for trail in several if trail not in old and trail not in doubtful]
        if doubtful:
            compared.doubtful[key] = doubtful
        if old:
            compared.replaced[key] = old
        if not events:
            if own:
                compared.missing[key] = own
        elif await _lacks(sources, key, [event.id for event in events], own):
            compared.regressed[key] = own
    return compared


async def _older(
    sources: Sources, key: SessionKey, trails: Sequence[Trail]
) -> tuple[list[Trail], list[Trail]]:
    """The trails of earlier sessions of this name, which were deleted; and those that may be."""
    creation = await sources.sessions.read_creation(key)
    if creation is None:
        return [], []
    if creation.epoch > 0:
        return [trail for trail in trails if _began(trail).epoch < creation.epoch], []
    known = {record.invocation_id for record in await records_of(sources.sessions, key)}
    found = [trail for trail in trails if _looks_older(_began(trail), creation, known)]
    match sources.missing:
        case Missing.DELETED:
            return found, []
        case Missing.LOST:
            return [], []
        case Missing.UNKNOWN:
            return [], found


def _began(trail: Trail) -> InvocationRecord:
    """The invocation's record as it was opened."""
    record = trail.opening[1].record if trail.opening else None
    if record is None:
        raise ValueError("A trail without an opening is of no session.")
    return record


def _looks_older(record: InvocationRecord, creation: Creation, known: Collection[str]) -> bool:
    """Whether an invocation may be of a session that a release without tombstones has deleted.

    The times are of several processes' clocks: they say nothing of an invocation that the session
    knows, and of one that it does not know they are no reason to end it.
    """
    return record.invocation_id not in known and record.update_time < creation.time


async def _lacks(
    sources: Sources, key: SessionKey, event_ids: Sequence[str], trails: Sequence[Trail]
) -> bool:
    if any(trail.told > len(event_ids) for trail in trails):
        return True
    records = {record.invocation_id: record for record in await records_of(sources.sessions, key)}
    return not all(
        is_stored(act, place, event_ids, records.get(act.step.invocation_id))
        for trail in trails
        for act in trail.acts
        if (place := place_of(act))
    )


async def regressions(sources: Sources, compared: Compared) -> list[Case]:
    """The sessions that lack something, and how each can be rebuilt."""
    lost = compared.missing if sources.missing is Missing.LOST else {}
    wanted = compared.regressed | lost
    if not wanted:
        return []
    redone = await Redo(sources.sessions).run(wanted)
    together = _Together(sources.sessions)
    return [
        _regression(key, one, wanted[key], together, is_missing=key in lost)
        for key, one in redone.items()
        if sources.mean(key)
    ]


@dataclass
class _Together:
    """The sessions that are put back, in one transaction.

    One by one, a message that waits for the repair would find the newest of them in order, take the
    store for mended, and go on in a session that is not.
    """

    store: SessionLog
    sessions: list[Rebuilt] = field(default_factory=list[Rebuilt])
    _done: bool = False

    async def put_back(self) -> None:
        """Put back all of them, with the first that it is asked for."""
        if not self._done:
            await self.store.rebuild(self.sessions)
            self._done = True


def _regression(
    key: SessionKey, redone: Redone, trails: list[Trail], together: _Together, *, is_missing: bool
) -> Case:
    what = "the session is missing" if is_missing else "the store is older than its histories"
    unread = next((trail.failure for trail in trails if trail.failure), None)
    rebuilt = redone.rebuilt
    if rebuilt is None or unread:
        why = f"{NEEDS_CODE}: {unread}" if unread else redone.failure
        return case(Kind.REGRESSED, key, f"{what}, and cannot be rebuilt: {why}")
    together.sessions.append(rebuilt)
    return case(
        Kind.REGRESSED,
        key,
        f"{what}: {_lacking(rebuilt)}",
        fix=f"put back {_lacking(rebuilt)}"
        + ("; what it was created with is not in them" if is_missing else ""),
        remedy=together.put_back,
    )


def _lacking(rebuilt: Rebuilt) -> str:
    if not rebuilt.events:
        return f"the end of {', '.join(record.invocation_id for record in rebuilt.records)}"
    first, last = rebuilt.events[0].seq, rebuilt.events[-1].seq
    events = f"event {first}" if first == last else f"events {first} to {last}"
    count = len(rebuilt.records)
    return f"{events} of {count} invocation{'s' if count > 1 else ''}"


def orphans(sources: Sources, compared: Compared, *, is_empty: bool) -> list[Case]:
    """The open workflows of sessions that the store does not have.

    Ending them is right if the session was deleted, and loses them if it was lost with a backup.
    Nobody is asked when all other sessions are as they should be.

    Args:
        sources: Where to look, and what they were told.
        compared: The sessions.
        is_empty: Whether the store has no sessions at all, which looks like a new file.
    """
    missing = {} if sources.missing is Missing.LOST else compared.missing
    unsure = sources.missing is Missing.UNKNOWN and (is_empty or bool(compared.regressed))
    gone = [*((item, False) for item in compared.replaced.items())]
    gone += [*((item, True) for item in compared.doubtful.items())]
    gone += [*((item, unsure) for item in missing.items())]
    return [
        _orphan(sources, key, trail, doubtful=doubtful)
        for (key, trails), doubtful in gone
        for trail in trails
        if trail.is_open and sources.mean(key)
    ]


def _orphan(sources: Sources, key: SessionKey, trail: Trail, *, doubtful: bool) -> Case:
    return case(
        Kind.ORPHAN,
        key,
        f"workflow {trail.workflow_id} is open, and its session is not in the store"
        + ("; say --deleted or --lost, whichever it was" if doubtful else ""),
        invocation_id=trail.opening[0].invocation_id if trail.opening else None,
        fix=None if doubtful else "cancel the workflow; terminate it if that does not end it",
        remedy=None
        if doubtful
        else partial(end_workflow, sources.client, trail.workflow_id, trail.first_run_id),
    )


async def end_workflow(client: Client, workflow_id: str, first_run_id: str) -> None:
    """Cancel a workflow, and terminate it if no worker is there to end it."""
    handle = client.get_workflow_handle(workflow_id, first_execution_run_id=first_run_id)
    try:
        await handle.cancel()
        with suppress(TimeoutError):
            async with asyncio.timeout(PATIENCE):
                while (await handle.describe()).status is WorkflowExecutionStatus.RUNNING:  # noqa: ASYNC110  # another process ends it
                    await asyncio.sleep(0.1)
                return
        await handle.terminate(reason="There is nothing left for it to do; ended by the doctor.")
    except RPCError as error:
        if error.status is not RPCStatusCode.NOT_FOUND:  # it has ended
            raise TemporalUnavailableError(f"Temporal did not answer: {error.message}") from error


def first_runs(trails: Sequence[Trail]) -> Mapping[str, Trail]:
    """The trails by the id of their first run, which is what a lease owner names."""
    return {trail.first_run_id: trail for trail in trails}
