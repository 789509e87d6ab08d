"""Staleness checks: detect that the session store is older than what was committed to it (I21).

A running invocation knows how long its session was, so `require_known` compares the two. A new
invocation knows nothing: Temporal does, and the store must know every invocation that Temporal has
seen completed (`StalenessCheck`).
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
"""Completed invocations that are looked at until the store knows one. If the sessions of all these
are missing, nothing tells whether they were lost, or deleted by a release that kept no tombstones,
and they are taken for deleted."""
MAX_AGE = 5.0
"""Seconds after which Temporal is asked again. Until then the last answer has to be true still, so
what is missed is a backup that is no older than this."""
REFUSAL_AGE = 1.0
"""Seconds after which Temporal is asked again before a session is refused."""
CLOCK_DIFFERENCE = 600.0
"""Seconds by which the clocks of a worker and of Temporal may differ, where a session that is known
to have been deleted was created again."""

logger = get_logger(__name__)


@dataclass(frozen=True)
class _Completed:
    """An invocation that has completed."""

    key: SessionKey
    invocation_id: str
    started: float
    """Not before this, in seconds since the epoch."""
    steered: bool = False
    """Whether another one has completed, whose message was merged into this one."""


@dataclass(frozen=True)
class _Look:
    """What the completed invocations have said."""

    known: _Completed | None = None
    """The newest one that the store knows; it knows what was before that too."""
    stale: Mapping[SessionKey, str] = field(default_factory=dict[SessionKey, str])
    """By session that lacks one, the invocation's id."""

    @property
    def is_general(self) -> bool:
        """Whether the store itself is older, and not only what one user has done to sessions."""
        users = {key[:2] for key in self.stale}
        return len(users) > 1 or (bool(self.stale) and self.known is None)

    def concerns(self, key: SessionKey) -> bool:
        """Whether a session must not be written to."""
        return key in self.stale or self.is_general


@dataclass
class StalenessCheck:
    """Looks for invocations that have completed and that the store does not know."""

    client: Client
    sessions: SessionLog
    task_queue: str
    """Its workers share a store; others may have another one."""
    _last: _Look = field(default_factory=_Look)
    _asked: float = float("-inf")
    """When the asking began that had this answer."""
    _tried: float = float("-inf")
    """When the last asking began, answered or not."""
    _turn: asyncio.Lock = field(default_factory=asyncio.Lock)
    _completed: dict[str, _Completed] = field(default_factory=dict[str, _Completed])
    """Those of the last answer by run id: the result of a run never changes."""

    async def check(self, key: SessionKey) -> None:
        """Make sure that a session lacks nothing, as far as Temporal can tell.

        What one session lacks stops its own openings (I22). All are stopped where sessions of
        several users lack something, or none of the newest invocations is known: then the store was
        restored from a backup. Sessions that are missing, or were created since, have been deleted.
        A Temporal that does not answer is asked at the next opening.

        Raises:
            SessionRegressedError: It must not be written to.
        """
        last = self._last
        if last.known is not None and not await self._knows(last.known) and self._last is last:
            self._asked = float("-inf")  # it was deleted, or the store was restored just now
        await self._ask(MAX_AGE)
        if self._last.concerns(key):
            # Looked at again: it may have been put back, or accepted as deleted, since.
            await self._ask(REFUSAL_AGE)
        if self._last.concerns(key):
            raise _refusal(key, self._last)

    async def _ask(self, age: float) -> None:
        """Have an answer that is no older than this; of callers at once, one asks for all."""
        called = time.monotonic()
        async with self._turn:
            # Who asked after this call was made has asked for it as well, answered or not.
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
        """Walk back to the first one that the store knows."""
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
        # Beside a session that lacks something, those that nobody has deleted are lost as well.
        return _Look(known, missing | stale if stale else {})

    async def _read(self, execution: WorkflowExecution) -> _Completed | None:
        """The invocation; None: its result cannot be read, so nothing follows from it."""
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
        """Whether the store has it closed."""
        record = await self.sessions.get_invocation(one.key, one.invocation_id)
        return record is not None and record.status.closed

    async def _lacks(self, one: _Completed) -> bool:
        """Whether a session lacks it that was there when it was started.

        Told by the session's own creation and by no event's timestamp, which user code may write.
        """
        if one.steered and await self.sessions.get_invocation(one.key, one.invocation_id):
            return False  # it runs on, and says nothing of what came before
        creation = await self.sessions.read_creation(one.key)
        if creation is None:
            return False
        recreated = creation.epoch > 0
        return creation.time < one.started - (CLOCK_DIFFERENCE if recreated else 0.0)


def _refusal(key: SessionKey, look: _Look) -> SessionRegressedError:
    """The error, which names no session but the caller's own: another user must not be told (S23).

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
    """Make sure that a session knows of an invocation that was opened in it.

    A record never goes while its session is there, and a log never gets shorter. A session that is
    missing altogether counts as deleted: of that nothing is left to tell it by.

    Args:
        deps: Where the store is.
        key: The session.
        invocation_id: It was opened.
        epoch: Of the invocation's lease; 0: it is not known.
        revision: Number of an event that was stored; None: none is known of.

    Raises:
        LeaseLostError: It was opened in a session that was deleted; the one there is another.
        SessionRegressedError: It was opened in a session that is older now than it was then.
    """
    try:
        present, _ = await deps.sessions.read_state(key, epoch=epoch or None)
    except SessionNotFoundError:
        return
    record = await deps.sessions.get_invocation(key, invocation_id)
    if record is None or present < (revision or 0):
        raise SessionRegressedError(
            f"The store is older than the history of invocation {invocation_id!r}, as after the "
            f"restoring of a backup: session {key.session_id!r} has {present} events. Nothing is "
            "written to it; run `durable-adk doctor --fix` to put back what is missing."
        )
