"""Sessions that lack data which their workflows' histories show as committed.

Either the store was restored from a backup, or the session was deleted.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from durable_adk.ops.doctor.findings import Case, Kind, case
from durable_adk.ops.doctor.lease_owners import end_workflow
from durable_adk.ops.doctor.operation_log import OperationLog
from durable_adk.ops.doctor.rebuild import RebuildResult, SessionRebuild, is_stored, position_of
from durable_adk.ops.doctor.sources import Missing, Sources
from durable_adk.sessions.log.rebuild import Rebuilt
from durable_adk.sessions.records import InvocationRecord
from durable_adk.sessions.session import Creation, SessionKey
from durable_adk.sessions.session_log import SessionLog

Logs = dict[SessionKey, list[OperationLog]]

NEEDS_CODE = "a history cannot be replayed; if it has a custom agent, name its code with --target"


@dataclass
class Comparison:
    """The sessions of the histories, compared with the store."""

    regressed: Logs = field(default_factory=Logs)
    """Sessions that are in the store, but incomplete."""
    missing: Logs = field(default_factory=Logs)
    """Sessions that are not in the store, or are empty as if deleted and created again."""
    replaced: Logs = field(default_factory=Logs)
    """Sessions that were certainly deleted: there is a newer one with the name, or a tombstone."""
    doubtful: Logs = field(default_factory=Logs)
    """Sessions that are older than their namesake, if the clocks of several hosts agree."""

    @property
    def keys(self) -> set[SessionKey]:
        """The sessions that lack data."""
        return {*self.regressed, *self.missing}


async def compare(
    sources: Sources, logs: Sequence[OperationLog], *, apps: Collection[str]
) -> Comparison:
    """Compare the committed operations with the store.

    Only sessions of the store's own apps are compared, because several stores may share a Temporal.
    Call this after reading the histories: a commit in between is in the store and not in the
    history, which is consistent.
    """
    by_key: Logs = {}
    for log in logs:
        if log.key is not None and log.key.app_name in {*apps, sources.app}:
            by_key.setdefault(log.key, []).append(log)
    compared = Comparison()
    for key, several in by_key.items():
        events = [item.event for item in await sources.sessions.read_events(key)]
        old, doubtful = await _older(sources, key, several)
        own = [log for log in several if log not in old and log not in doubtful]
        if doubtful:
            compared.doubtful[key] = doubtful
        if old:
            compared.replaced[key] = old
        if not events:
            if own:
                compared.missing[key] = own
        elif await _lacks_operations(sources, key, {event.id for event in events}, own):
            compared.regressed[key] = own
    return compared


async def _older(
    sources: Sources, key: SessionKey, logs: Sequence[OperationLog]
) -> tuple[list[OperationLog], list[OperationLog]]:
    """Return the logs of deleted sessions with this name, and those that may belong to one."""
    creation = await sources.sessions.read_creation(key)
    if creation is None:
        return [], []
    if creation.epoch > 0:
        return [log for log in logs if _opening_record(log).epoch < creation.epoch], []
    known = {record.invocation_id for record in await sources.records(key)}
    found = [log for log in logs if _looks_older(_opening_record(log), creation, known)]
    match sources.missing:
        case Missing.DELETED:
            return found, []
        case Missing.LOST:
            return [], []
        case Missing.UNKNOWN:
            return [], found


def _opening_record(log: OperationLog) -> InvocationRecord:
    """Return the invocation's record at its opening."""
    record = log.opening[1].record if log.opening else None
    if record is None:
        raise ValueError("An operation log without an opening belongs to no session.")
    return record


def _looks_older(record: InvocationRecord, creation: Creation, known: Collection[str]) -> bool:
    """Return whether an invocation's session may have been deleted without a tombstone.

    Deleting a user's data removes the tombstones of the user's sessions. The times come from the
    clocks of several processes. They never justify ending an invocation, whether or not the session
    has it.
    """
    return record.invocation_id not in known and record.update_time < creation.time


async def _lacks_operations(
    sources: Sources, key: SessionKey, event_ids: Collection[str], logs: Sequence[OperationLog]
) -> bool:
    if any(log.last_recorded > len(event_ids) for log in logs):
        return True
    records = {record.invocation_id: record for record in await sources.records(key)}
    return not all(
        is_stored(operation, position, event_ids, records.get(operation.step.invocation_id))
        for log in logs
        for operation in log.operations
        if (position := position_of(operation))
    )


async def regressions(sources: Sources, compared: Comparison) -> list[Case]:
    """Return the sessions that lack data, each with its remedy."""
    lost = compared.missing if sources.missing is Missing.LOST else {}
    wanted = compared.regressed | lost
    if not wanted:
        return []
    results = await SessionRebuild(sources.sessions).run(wanted)
    joint = _JointRebuild(sources.sessions)
    return [
        _regression(key, result, wanted[key], joint, is_missing=key in lost)
        for key, result in results.items()
        if sources.covers(key)
    ]


@dataclass
class _JointRebuild:
    """The sessions to put back, in one transaction.

    If sessions were put back one by one, a message that waits for the repair could find its own
    session consistent, and continue in another session that is not.
    """

    store: SessionLog
    sessions: list[Rebuilt] = field(default_factory=list[Rebuilt])
    _done: bool = False

    async def put_back(self) -> None:
        """Put back all sessions, once."""
        if not self._done:
            await self.store.rebuild(self.sessions)
            self._done = True


def _regression(
    key: SessionKey,
    result: RebuildResult,
    logs: list[OperationLog],
    joint: _JointRebuild,
    *,
    is_missing: bool,
) -> Case:
    what = "the session is missing" if is_missing else "the store is older than its histories"
    unreadable = next((log.failure for log in logs if log.failure), None)
    rebuilt = result.rebuilt
    if rebuilt is None or unreadable:
        why = f"{NEEDS_CODE}: {unreadable}" if unreadable else result.failure
        return case(Kind.REGRESSED, key, f"{what}, and cannot be rebuilt: {why}")
    joint.sessions.append(rebuilt)
    return case(
        Kind.REGRESSED,
        key,
        f"{what}: {_summary(rebuilt)}",
        fix=f"put back {_summary(rebuilt)}"
        + (", behind what was appended in their place" if result.forked else "")
        + ("; the state it was created with is not in the histories" if is_missing else ""),
        remedy=joint.put_back,
    )


def _summary(rebuilt: Rebuilt) -> str:
    if not rebuilt.events:
        return f"the end of {', '.join(record.invocation_id for record in rebuilt.records)}"
    first, last = rebuilt.events[0].seq, rebuilt.events[-1].seq
    events = f"event {first}" if first == last else f"events {first} to {last}"
    count = len(rebuilt.records)
    return f"{events} of {count} invocation{'s' if count > 1 else ''}"


def orphans(sources: Sources, compared: Comparison, *, is_empty: bool) -> list[Case]:
    """Return the open workflows of sessions that are not in the store.

    Ending them is right if the session was deleted, but loses data if it is missing because of a
    backup. The operator need not decide if all other sessions are consistent.

    Args:
        sources: The store, and the operator's decision about missing sessions.
        compared: The sessions.
        is_empty: Whether the store has no sessions at all, as if its file were new.
    """
    missing = {} if sources.missing is Missing.LOST else compared.missing
    unsure = sources.missing is Missing.UNKNOWN and (is_empty or bool(compared.regressed))
    return [
        *_orphans_of(sources, compared.replaced, doubtful=False),
        *_orphans_of(sources, compared.doubtful, doubtful=True),
        *_orphans_of(sources, missing, doubtful=unsure),
    ]


def unexamined(
    sources: Sources, logs: Sequence[OperationLog], *, apps: Collection[str]
) -> list[Case]:
    """Return the open workflows that cannot be compared with the store.

    Their app has no session there, or their history cannot be read. Without this, the doctor would
    find nothing wrong with an empty or a wrong store.

    Args:
        sources: The store and its Temporal.
        logs: The logs of all workflows whose invocations have not ended.
        apps: The apps whose sessions were compared.
    """
    if sources.app is not None:
        return []
    cases: list[Case] = []
    for log in logs:
        if not log.is_open:
            continue
        if log.key is None and log.failure is not None:
            problem = f"workflow {log.workflow_id} is open, and was not examined: {log.failure}"
            cases.append(case(Kind.UNREAD, SessionKey("", "", ""), problem))
        elif log.key is not None and log.key.app_name not in apps:
            problem = (
                f"workflow {log.workflow_id} is open, and the store has no session of its app: the "
                "store is new, restored or another one. If several stores share this Temporal, "
                "examine each app with --app"
            )
            opening = log.opening
            name = opening[0].invocation_id if opening else None
            cases.append(case(Kind.ORPHAN, log.key, problem, invocation_id=name))
    return [one for one in cases if sources.covers(one.finding.key)]


def _orphans_of(
    sources: Sources, logs: Mapping[SessionKey, Sequence[OperationLog]], *, doubtful: bool
) -> list[Case]:
    return [
        _orphan(sources, key, log, doubtful=doubtful)
        for key, several in logs.items()
        for log in several
        if log.is_open and sources.covers(key)
    ]


def _orphan(sources: Sources, key: SessionKey, log: OperationLog, *, doubtful: bool) -> Case:
    end = partial(end_workflow, sources.client, log.workflow_id, log.first_run_id)
    return case(
        Kind.ORPHAN,
        key,
        f"workflow {log.workflow_id} is open, and its session is not in the store"
        + ("; say --deleted or --lost, whichever it was" if doubtful else ""),
        invocation_id=log.opening[0].invocation_id if log.opening else None,
        fix=None if doubtful else "cancel the workflow; terminate it if that does not end it",
        remedy=None if doubtful else end,
    )
