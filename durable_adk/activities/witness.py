"""Noticing that a store is older than it was, before a new run appends to it (I21).

A run that goes on knows how long its session was. A new one knows nothing, so something else has to
remember: Temporal does. The store has to know every invocation that Temporal has seen completed.
"""

import time
from dataclasses import dataclass

from temporalio.client import Client, WorkflowExecution, WorkflowFailureError
from temporalio.service import RPCError

from durable_adk.errors import SessionRegressedError
from durable_adk.messages import InvocationResult
from durable_adk.sessions.base_session_service import BaseSessionService
from durable_adk.sessions.session import SessionKey

FARTHEST = 30
"""Completed invocations that are looked at until the store knows one. If the sessions of all these
are missing, nothing tells whether they were deleted or lost, and they are taken for deleted."""
MAX_AGE = 5.0
"""Seconds after which Temporal is asked again. Until then the last answer has to be true still, so
what is missed is a backup that is no older than this."""


@dataclass(frozen=True)
class _Seen:
    """An invocation that has completed."""

    key: SessionKey
    invocation_id: str
    opened: float
    """Not before this, in seconds since the epoch."""
    heard: bool = False
    """Whether another one has completed, whose message this one has heard."""


@dataclass
class StoreWitness:
    """Remembers the newest invocation that has completed and that the store knows."""

    client: Client
    sessions: BaseSessionService
    task_queue: str
    """Its workers share a store; others may have another one."""
    _anchor: _Seen | None = None
    _asked: float = float("-inf")

    async def check(self) -> None:
        """Make sure that the store still knows it, and none of those that came after it is lost.

        Sessions that are missing, or were made anew, have been deleted; if they were lost instead,
        those that are older tell. A Temporal that does not answer is asked at the next opening.

        Raises:
            SessionRegressedError: It does not, and must not be written to.
        """
        if self._anchor is not None and not await self._knows(self._anchor):
            # Also at the next check, should this one raise: it is not for a retry to get by.
            self._anchor, self._asked = None, float("-inf")
        if time.monotonic() - self._asked > MAX_AGE:
            await self._ask()

    async def _ask(self) -> None:
        asked = time.monotonic()
        try:
            anchor = await self._newest_known()
        except (RPCError, WorkflowFailureError):
            return
        self._anchor, self._asked = anchor, asked

    async def _newest_known(self) -> _Seen | None:
        """Walk back to the first one that the store knows; it knows what was before that too."""
        query = (
            "WorkflowType = 'Invocation' AND ExecutionStatus = 'Completed' "
            f"AND TaskQueue = '{self.task_queue}'"
        )
        listed = self.client.list_workflows(query, limit=FARTHEST, page_size=FARTHEST)
        async for execution in listed:
            one = await self._read(execution)
            if await self._knows(one):
                return one
        return None

    async def _read(self, execution: WorkflowExecution) -> _Seen:
        handle = self.client.get_workflow_handle(execution.id, run_id=execution.run_id)
        result = InvocationResult.model_validate(await handle.result())
        key = SessionKey(result.app, result.user, result.session)
        at = execution.start_time.timestamp()
        if result.steered is not None:
            return _Seen(key, result.steered, at, heard=True)
        return _Seen(key, result.invocation_id, at)

    async def _knows(self, one: _Seen) -> bool:
        """Whether the store has it; not if its session is another now."""
        record = await self.sessions.get_invocation(one.key, one.invocation_id)
        if record is not None and record.status.closed:
            return True
        if record is not None and one.heard:
            return False  # it runs on, and says nothing of what came before
        first = await self.sessions.read_events(one.key, upto=1)
        if first and first[0].event.timestamp < one.opened:
            raise SessionRegressedError(
                f"Invocation {one.invocation_id!r} has completed, and the session store does not "
                "know that: it is older than it was, as after the restoring of a backup. Nothing "
                "is written to it; run `durable-adk doctor --fix` to put back what is missing."
            )
        return False
