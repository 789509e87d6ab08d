"""Staleness checks: detect that the session store is older than what was committed to it (I21).

A running invocation knows how long its session was, and `require_known` compares that to the store.
A new invocation has no such knowledge, but Temporal does: the store must contain every invocation
that Temporal lists as completed (`StalenessCheck`).
"""

import asyncio
import time
from collections.abc import Mapping
from dataclasses import dataclass, field

from temporalio.client import Client, WorkflowExecution
from temporalio.service import RPCError

from durable_adk.activities.dependencies import Dependencies
from durable_adk.errors import SessionNotFoundError, SessionRegressedError
from durable_adk.log import get_logger
from durable_adk.sessions.session import SessionKey
from durable_adk.sessions.session_log import SessionLog
from durable_adk.wire.messages import InvocationResult

FARTHEST = 30
"""Maximum number of completed invocations to check until the store contains one. If the sessions of
all of them are missing, they may have been lost, or deleted; they count as deleted."""
MAX_AGE = 5.0
"""Seconds for which Temporal's answer is reused. A restored backup that is younger than this may
therefore go undetected."""
REFUSAL_AGE = 1.0
"""Maximum age in seconds of the answer on which a session is refused."""
CLOCK_DIFFERENCE = 600.0
"""Tolerated difference in seconds between a worker's clock and Temporal's, for a session that is
known to have been deleted and created again."""

logger = get_logger(__name__)


@dataclass(frozen=True)
class _Completed:
    """A completed invocation."""

    key: SessionKey
    invocation_id: str
    started: float
    """Earliest possible start, in seconds since the epoch."""
    steered: bool = False
    """Whether the workflow that completed only delivered its message to this invocation."""


@dataclass(frozen=True)
class _Look:
    """The result of checking the completed invocations."""

    known: _Completed | None = None
    """The newest invocation that the store contains; the store then contains all earlier ones
    too."""
    stale: Mapping[SessionKey, str] = field(default_factory=dict[SessionKey, str])
    """By session that lacks an invocation: the invocation's id."""

    @property
    def is_general(self) -> bool:
        """Whether the store itself is older, as opposed to one user having changed sessions."""
        users = {key[:2] for key in self.stale}
        return len(users) > 1 or (bool(self.stale) and self.known is None)

    def concerns(self, key: SessionKey) -> bool:
        """Return whether the session must not be written to."""
        return key in self.stale or self.is_general


@dataclass
class StalenessCheck:
    """Looks for completed invocations that the store does not contain."""

    client: Client
    sessions: SessionLog
    task_queue: str
    """The task queue whose workers share the store; others may use another store."""
    _last: _Look = field(default_factory=_Look)
    _asked: float = float("-inf")
    """When the query behind the last answer was started."""
    _tried: float = float("-inf")
    """When the last query was started, whether or not it succeeded."""
    _turn: asyncio.Lock = field(default_factory=asyncio.Lock)
    _completed: dict[str, _Completed] = field(default_factory=dict[str, _Completed])
    """The invocations of the last answer by run id; the result of a run never changes."""

    async def check(self, key: SessionKey) -> None:
        """Check that a session is complete, as far as Temporal can tell.

        A session that lacks an invocation is closed to new openings (I22). All sessions are if
        those of several users lack invocations, or if none of the newest invocations is known: then
        the store was restored from a backup. Sessions that are missing, or were created later,
        count as deleted. If Temporal does not respond, the next opening queries it again.

        Raises:
            SessionRegressedError: The session must not be written to.
        """
        last = self._last
        if last.known is not None and not await self._knows(last.known) and self._last is last:
            self._asked = float("-inf")  # it was deleted, or the store has just been restored
        await self._ask(MAX_AGE)
        if self._last.concerns(key):
            # Query again: the session may have been repaired, or accepted as deleted, since.
            await self._ask(REFUSAL_AGE)
        if self._last.concerns(key):
            raise _refusal(key, self._last)

    async def _ask(self, age: float) -> None:
        """Query Temporal if the last answer is older than `age`; concurrent callers share one."""
        called = time.monotonic()
        async with self._turn:
            # A query that started after this call serves it too, whether or not it succeeded.
            if self._tried >= called or self._asked >= called - age:
                return
            self._tried = time.monotonic()
            try:
                look = await self._look()
            except RPCError:
                return
            if look.stale and look.stale != self._last.stale:
                lacking = [(key.session_id, name) for key, name in look.stale.items()]
                logger.warning("staleness.store_is_older", lacking=lacking)
            self._last, self._asked = look, self._tried

    async def _look(self) -> _Look:
        """Walk backwards to the newest completed invocation that the store contains."""
        query = (
            "WorkflowType = 'Invocation' AND ExecutionStatus = 'Completed' "
            f"AND TaskQueue = '{self.task_queue}'"
        )
        stale: dict[SessionKey, str] = {}
        missing: dict[SessionKey, str] = {}
        known: _Completed | None = None
        completed: dict[str, _Completed] = {}
        listed = self.client.list_workflows(query, limit=FARTHEST, page_size=FARTHEST)
        async for execution in listed:
            run_id = execution.run_id
            one = self._completed.get(run_id) or await self._read(execution)
            if one is None:
                continue
            completed[run_id] = one
            if await self._knows(one):
                known = one
                break
            if await self.sessions.read_creation(one.key) is None:
                missing.setdefault(one.key, one.invocation_id)
            elif await self._lacks(one):
                stale.setdefault(one.key, one.invocation_id)
        self._completed = completed
        # If a session lacks an invocation, missing sessions without a tombstone are lost as well.
        return _Look(known, missing | stale if stale else {})

    async def _read(self, execution: WorkflowExecution) -> _Completed | None:
        """Return the invocation, or None if its result cannot be read and so proves nothing."""
        handle = self.client.get_workflow_handle(execution.id, run_id=execution.run_id)
        try:
            result = InvocationResult.read(await handle.result())
        except Exception as error:  # noqa: BLE001 - a lost payload, a missing key, another's result
            logger.debug("staleness.unreadable", error_type=type(error).__name__)
            return None
        key = SessionKey(result.app, result.user, result.session)
        at = execution.start_time.timestamp()
        if result.steered is not None:
            return _Completed(key, result.steered, at, steered=True)
        return _Completed(key, result.invocation_id, at)

    async def _knows(self, one: _Completed) -> bool:
        """Return whether the store contains the invocation as closed."""
        record = await self.sessions.get_invocation(one.key, one.invocation_id)
        return record is not None and record.status.closed

    async def _lacks(self, one: _Completed) -> bool:
        """Return whether a session lacks an invocation that started after the session's creation.

        Decided by the creation record of the session, not by timestamps of events, which user code
        can set.
        """
        if one.steered and await self.sessions.get_invocation(one.key, one.invocation_id):
            return False  # it is still open, and proves nothing about earlier ones
        creation = await self.sessions.read_creation(one.key)
        if creation is None:
            return False
        recreated = creation.epoch > 0
        return creation.time < one.started - (CLOCK_DIFFERENCE if recreated else 0.0)


def _refusal(key: SessionKey, look: _Look) -> SessionRegressedError:
    """Build the error, which names only the caller's own session, not those of other users (S23).

    Operators find the others in the log.
    """
    name = look.stale.get(key)
    what = (
        "Invocations have completed, and the store does not know them"
        if name is None
        else f"Invocation {name!r} has completed, and session {key.session_id!r} does not know it"
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
    missing altogether counts as deleted, because nothing is left to distinguish the cases.

    Args:
        deps: Gives access to the store.
        key: The session.
        invocation_id: An invocation that was opened.
        epoch: The epoch of the invocation's lease; 0: unknown.
        revision: Number of an event that was stored; None: none is known.

    Raises:
        LeaseLostError: The session was deleted, and the present one is another of the same name.
        SessionRegressedError: The session is older now than when the invocation was opened.
    """
    try:
        present = await deps.sessions.read_revision(key, epoch=epoch or None)
    except SessionNotFoundError:
        return
    record = await deps.sessions.get_invocation(key, invocation_id)
    if record is None or present < (revision or 0):
        raise SessionRegressedError(
            f"The store is older than the history of invocation {invocation_id!r}, as after the "
            f"restoring of a backup: session {key.session_id!r} has {present} events. Nothing is "
            "written to it; run `durable-adk doctor --fix` to put back what is missing."
        )
