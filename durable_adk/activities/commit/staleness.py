"""Staleness checks: detect that the session store is older than what was committed to it (I21).

A running invocation knows the length of its session, and `require_known` compares it to the store.
A new invocation does not, but Temporal does: the store must contain every invocation that a
workflow has stored (`StalenessCheck`).
"""

import asyncio
import time
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

from temporalio.client import Client, WorkflowExecution, WorkflowExecutionStatus
from temporalio.service import RPCError

from durable_adk.activities.commit.workflow_records import WorkflowRecord, read_record
from durable_adk.activities.dependencies import Dependencies
from durable_adk.errors import SessionNotFoundError, SessionRegressedError
from durable_adk.json_values import canonical
from durable_adk.log import get_logger
from durable_adk.sessions.lease_owner import TemporalLeaseOwner
from durable_adk.sessions.records import OPEN, InvocationRecord
from durable_adk.sessions.session import Creation, SessionKey
from durable_adk.sessions.session_log import SessionLog

MAX_AGE = 5.0
"""Seconds for which Temporal's answer is reused."""
RETRY_AGE = 1.0
"""Seconds until Temporal is queried again if the store went back, or if Temporal did not answer."""
GAP = 60.0
"""Seconds without a check after which the store may have been replaced unnoticed."""
LATE = 10.0
"""Maximum delay, in seconds, with which Temporal lists a workflow."""
CLOCK_DIFFERENCE = 600.0
"""Tolerated difference in seconds between a worker's clock and Temporal's, for a session that is
known to have been deleted and created again."""
READERS = 16
"""Histories that are read at the same time."""

logger = get_logger(__name__)

WorkflowRecords = dict[SessionKey, list[WorkflowRecord]]


@dataclass
class StalenessCheck:
    """Looks for invocations that Temporal knows and the store does not contain.

    The store has a horizon, a Temporal timestamp up to which it contains everything that was
    committed. The horizon advances while nothing is missing. A restored store has an earlier one,
    so every worker reads there which workflows to compare, whatever was committed meanwhile.
    """

    client: Client
    sessions: SessionLog
    task_queue: str
    """The task queue whose workers share the store; others may use another store."""
    apps: Collection[str] = ()
    """Apps whose records are compared with the list of workflows first, so that histories of stored
    invocations are not read."""
    _horizon: float | None = None
    """The store's horizon when last read; None: not compared yet."""
    _read: float = float("-inf")
    """When the horizon was last read."""
    _looked: float = float("-inf")
    """When the last query that Temporal answered was started."""
    _tried: float = float("-inf")
    """When the last query was started."""
    _turn: asyncio.Lock = field(default_factory=asyncio.Lock)
    _lacking: WorkflowRecords = field(default_factory=WorkflowRecords)
    """Records that the store lacks, of sessions that it has."""
    _missing: WorkflowRecords = field(default_factory=WorkflowRecords)
    """Records that it lacks, of sessions that it does not have. These sessions count as deleted
    unless a session in `_lacking` lacks something."""
    _unread: dict[SessionKey, list[WorkflowExecution]] = field(
        default_factory=dict[SessionKey, list[WorkflowExecution]]
    )
    """Open workflows whose invocations are open in the store. How much they have stored is compared
    at the next write to the session."""
    _closed: dict[str, WorkflowRecord | None] = field(
        default_factory=dict[str, WorkflowRecord | None]
    )
    """Closed runs of the last list, by run id; the record of a closed run never changes."""

    async def check(self, key: SessionKey) -> None:
        """Check that a session is complete, as far as Temporal can tell.

        A session that lacks something is closed to new openings and answers (I22), until the store
        has it or the session is deleted. If sessions of several users lack something, the store was
        restored from a backup, and all sessions are closed. Sessions that are missing, or were
        created later, count as deleted. If Temporal does not respond, the next opening queries it
        again.

        Raises:
            SessionRegressedError: The session must not be written to.
        """
        await self._renew()
        await self._read_open(key)
        if not self._lacking:
            return
        own = await self._still(self._lacking, key)
        users = set[tuple[str, str]]()
        for other in [*self._lacking]:
            if await self._still(self._lacking, other):
                users.add(other[:2])
            if len(users) > 1:
                break
        if own or len(users) > 1 or (users and await self._still(self._missing, key, None)):
            raise _refusal(key, own)

    async def _renew(self) -> None:
        """Compare the store with Temporal if it may have been replaced since last time."""
        called = time.monotonic()
        async with self._turn:
            if self._tried >= called:
                return  # that query serves this call too, whether or not it succeeded
            now = time.monotonic()
            stored = await self.sessions.read_horizon(self._name)
            went_back = self._horizon is None or stored < self._horizon
            whole = went_back or now - self._read > GAP
            left = self._tried + RETRY_AGE - now
            if whole or (left <= 0 and now - self._looked > MAX_AGE):
                await asyncio.sleep(max(0.0, left))
                self._tried = now = time.monotonic()
                try:
                    self._horizon = await self._look(stored, whole=whole)
                except RPCError as error:
                    logger.debug("staleness.not_compared", error_type=type(error).__name__)
                    return
                self._looked = self._read = now
            else:
                self._horizon, self._read = stored, now

    @property
    def _name(self) -> str:
        return canonical([self.client.namespace, self.task_queue])

    async def _look(self, horizon: float, *, whole: bool) -> float:
        """Compare the store with the workflows that are open or have closed since its horizon.

        Returns its new horizon.

        Args:
            horizon: The store's.
            whole: Whether all open workflows count, or only those started since.
        """
        since = datetime.fromtimestamp(max(horizon - LATE, 0.0), UTC).isoformat()
        new = "" if whole else f" AND StartTime >= '{since}'"
        query = (
            f"WorkflowType = 'Invocation' AND TaskQueue = '{self.task_queue}' AND "
            f"(CloseTime >= '{since}' OR (ExecutionStatus = 'Running'{new}))"
        )
        listed = [one async for one in self.client.list_workflows(query)]
        stored = await self._records(len(listed), whole=whole)
        unknown: list[WorkflowExecution] = []
        unread: dict[SessionKey, list[WorkflowExecution]] = {}
        for one in listed:
            key, record = stored.get(one.run_id, (None, None))
            is_open = one.status is WorkflowExecutionStatus.RUNNING
            if key is None or record is None or not (is_open or record.status.closed):
                unknown.append(one)
            elif is_open and not record.status.closed:
                unread.setdefault(key, []).append(one)
        if whole:
            self._unread = unread
        await self._compare(await self._read_all(unknown))
        if self._lacking:
            return horizon
        self._missing.clear()
        newest = max((one.close_time.timestamp() for one in listed if one.close_time), default=0.0)
        await self.sessions.raise_horizon(self._name, seen=horizon, to=newest)
        return max(horizon, newest)

    async def _records(
        self, count: int, *, whole: bool
    ) -> dict[str, tuple[SessionKey, InvocationRecord]]:
        """Return stored invocations by the first runs of their workflows: the newest and all open.

        Args:
            count: The number of workflows listed. Per app, twice as many of the most recently
                updated invocations are returned; the others are compared by their histories.
            whole: Whether all open invocations count.
        """
        found: list[tuple[SessionKey, InvocationRecord]] = []
        for app in self.apps:
            if whole:
                open_ones = self.sessions.all_invocations(app_name=app, statuses=OPEN)
                found += [one async for one in open_ones]
            found += await self.sessions.invocations_by_time(app_name=app, limit=2 * count + 1)
        owners = [TemporalLeaseOwner.parse(record.lease_owner) for _, record in found]
        return {owner.first_run_id: one for owner, one in zip(owners, found, strict=True) if owner}

    async def _read_all(
        self, executions: Sequence[WorkflowExecution]
    ) -> list[WorkflowRecord | None]:
        """Read the records of workflow runs, and that of a closed run only once."""
        turns = asyncio.Semaphore(READERS)

        async def read(one: WorkflowExecution) -> WorkflowRecord | None:
            if one.run_id in self._closed:
                return self._closed[one.run_id]
            async with turns:
                return await read_record(self.client, one)

        found = await asyncio.gather(*map(read, executions))
        self._closed = {
            one.run_id: record
            for one, record in zip(executions, found, strict=True)
            if one.status is not WorkflowExecutionStatus.RUNNING
        }
        return found

    async def _read_open(self, key: SessionKey) -> None:
        """Compare a session with its open workflows, whose invocations are open in the store."""
        if key in self._unread:
            try:
                found = [await read_record(self.client, one) for one in self._unread[key]]
            except RPCError as error:
                logger.debug("staleness.not_compared", error_type=type(error).__name__)
                return
            await self._compare(found)
            self._unread.pop(key, None)

    async def _compare(self, records: Iterable[WorkflowRecord | None]) -> None:
        """Record what the store lacks."""
        lacking: list[tuple[str, str]] = []
        for one in records:
            lacks = False if one is None else await self._lacks(one)
            if one is None or lacks is False:
                continue
            known = (self._missing if lacks is None else self._lacking).setdefault(one.key, [])
            if one not in known:
                known.append(one)
                if lacks:
                    lacking.append((one.key.session_id, one.invocation_id))
        if lacking:
            logger.warning("staleness.store_is_older", lacking=lacking)

    async def _still(
        self, records: WorkflowRecords, key: SessionKey, *verdicts: bool | None
    ) -> WorkflowRecord | None:
        """Return a record that the store still lacks of a session, and drop the others.

        Args:
            records: Records that were lacking.
            key: The session.
            verdicts: The results of `_lacks` that count, besides True.
        """
        while known := records.get(key):
            first = known[0]
            if await self._lacks(first) in (True, *verdicts):
                return first
            if first in known:  # another check may have dropped it
                known.remove(first)
        records.pop(key, None)
        return None

    async def _lacks(self, one: WorkflowRecord) -> bool | None:
        """Return whether the store lacks an invocation of a workflow; None if it lacks the session.

        Whether a session is another one of the same name is decided by its creation record, not by
        timestamps of events, which user code can set.
        """
        record = await self.sessions.get_invocation(one.key, one.invocation_id)
        if record is not None:
            if await self._contains(one, record):
                return False
            owner = TemporalLeaseOwner.parse(record.lease_owner)
            if owner is not None and owner.first_run_id == one.first_run_id:
                return True
        creation = await self.sessions.read_creation(one.key)
        if creation is not None:
            return _predates(creation, one)
        # The session of an agent that ran as a tool is only deleted together with its caller's.
        caller = one.caller and await self.sessions.read_creation(one.caller)
        if one.caller and caller and await self._length(one.caller) and _predates(caller, one):
            return True
        return None

    async def _contains(self, one: WorkflowRecord, record: InvocationRecord) -> bool:
        """Return whether the store contains all that a workflow's record has of an invocation."""
        if one.closed and not record.status.closed:
            return False
        if (
            one.delivered_event
            and await self.sessions.find_event(one.key, one.delivered_event) is None
        ):
            return False
        return not one.revision or await self._length(one.key) >= one.revision

    async def _length(self, key: SessionKey) -> int:
        try:
            return await self.sessions.read_revision(key)
        except SessionNotFoundError:
            return 0


def _predates(creation: Creation, one: WorkflowRecord) -> bool:
    """Return whether a session existed before an invocation in a session of its name was stored."""
    recreated = creation.epoch > 0
    if recreated and one.epoch is not None:
        return creation.epoch <= one.epoch
    return creation.time < one.started - (CLOCK_DIFFERENCE if recreated else 0.0)


def _refusal(key: SessionKey, own: WorkflowRecord | None) -> SessionRegressedError:
    """Build the error, which names only the caller's own session, not those of other users (S23).

    Operators find the others in the log.
    """
    what = (
        "Invocations were stored, and the store does not know them"
        if own is None
        else f"Invocation {own.invocation_id!r} was stored, and session {key.session_id!r} does "
        "not know it, or not all of it"
    )
    return SessionRegressedError(
        f"{what}: the session store is older than it was, as after the restoring of a backup. "
        "Nothing is written to it; run `durable-adk doctor --fix` to put back what is missing."
    )


async def require_known(
    deps: Dependencies,
    key: SessionKey,
    invocation_id: str,
    *,
    epoch: int,
    revision: int | None = None,
) -> None:
    """Check that a session contains an invocation that was opened in it.

    A record is kept as long as its session exists, and a log never gets shorter. A session that is
    missing altogether counts as deleted, unless the store is known to be older.

    Args:
        deps: The stores.
        key: The session.
        invocation_id: An invocation that was opened.
        epoch: The epoch of the invocation's lease; 0: unknown.
        revision: Number of an event that was stored; None: unknown.

    Raises:
        LeaseLostError: The session was deleted, and a new one has its name.
        SessionRegressedError: The session is older now than when the invocation was opened.
    """
    try:
        present = await deps.sessions.read_revision(key, epoch=epoch or None)
    except SessionNotFoundError:
        await deps.check_store(key)  # if others lack something, it was lost
        return
    record = await deps.sessions.get_invocation(key, invocation_id)
    if record is None or present < (revision or 0):
        raise SessionRegressedError(
            f"The store is older than the history of invocation {invocation_id!r}, as after the "
            f"restoring of a backup: session {key.session_id!r} has {present} events. Nothing is "
            "written to it; run `durable-adk doctor --fix` to put back what is missing."
        )
