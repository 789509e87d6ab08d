"""Runs invocations as workflows on Temporal."""

import asyncio
import time
from collections import deque
from contextlib import suppress
from typing import Any

from temporalio.service import RPCError, RPCStatusCode

from durable_adk.client.feed import deleted_paused, not_in_store
from durable_adk.client.invocations import InvocationHandle, Invocations
from durable_adk.errors import (
    InvocationNotFoundError,
    InvocationTerminatedError,
    NoWorkerError,
    SessionRegressedError,
    StoreUnavailableError,
    TemporalUnavailableError,
)
from durable_adk.log import get_logger
from durable_adk.sessions.lease_owner import TemporalLeaseOwner
from durable_adk.sessions.records import InvocationRecord
from durable_adk.sessions.session import SessionKey
from durable_adk.sessions.session_log import SessionLog
from durable_adk.wire.messages import (
    InvocationAnswer,
    InvocationRequest,
    InvocationResult,
    answer_event,
)

FIRST_LOOK = 2.0
"""Seconds after which the client logs why an invocation does not continue."""
WORKER_CHECK = 5.0
"""Seconds in which an invocation must open; after that a missing worker is an error."""
RECONNECT = 15.0
"""Seconds in which workers must poll a server again after its outage; they try every ten."""
_LOOKS = 3
"""Checks without a worker before that is an error; one of them may hit a restarting server."""
ANSWER_POLL = 0.02
MAX_ANSWER_POLL = 1.0
"""Seconds between checks whether an answer was accepted: initial and maximum delay."""
CLOSE_TIMEOUT = 1.0
"""Seconds for workflows to complete or pause when the client that followed them closes."""
SERVER_TIMEOUT = 120.0
"""Seconds for which requests to an unavailable server are retried."""

_AWAY = (RPCStatusCode.UNAVAILABLE, RPCStatusCode.DEADLINE_EXCEEDED, RPCStatusCode.CANCELLED)
"""Status codes of a request to which Temporal has not replied."""

_NEVER = 2**62
"""A cursor after all events, so that any change ends a wait."""


logger = get_logger(__name__)


class TemporalBackend:
    """Runs invocations as workflows; its tasks only wait for their results.

    Args:
        invocations: Those of a task queue.
        sessions: The session store of its workers.
        waits_for_worker: Whether to wait for a worker without limit; a missing one is logged, and
            is not an error.
    """

    def __init__(
        self, invocations: Invocations, sessions: SessionLog, *, waits_for_worker: bool = False
    ) -> None:
        self._waits_for_worker = waits_for_worker
        self._invocations = invocations
        self._sessions = sessions
        self._tasks: dict[asyncio.Task[Any], InvocationHandle] = {}
        self._left: deque[tuple[float, InvocationHandle]] = deque()
        """Recently released workflows, with the time of release."""

    async def start(self, request: InvocationRequest) -> asyncio.Task[Any]:
        """Start the workflow, or attach to the one with the same ids."""
        started = await self._invocations.start(request, replaced_at=self._replaced_at)
        return self._watch(started)

    async def _replaced_at(self, key: SessionKey, invocation_id: str) -> float | None:
        """Return when the session of an invocation was deleted or replaced, or None if it was not.

        If the store lost the invocation in another way, it has no deletion, or refuses the opening.
        """
        if await self._sessions.get_invocation(key, invocation_id) is not None:
            return None
        creation = await self._sessions.read_creation(key)
        return creation.time if creation is not None and creation.epoch > 0 else None

    async def attach(
        self, key: SessionKey, invocation_id: str, record: InvocationRecord | None
    ) -> asyncio.Task[Any] | None:
        """Wait for the workflow that owns the invocation's lease, or will own it."""
        return self._watch(self._handle(key, invocation_id, record))

    async def answer(
        self, key: SessionKey, record: InvocationRecord, answer: InvocationAnswer
    ) -> asyncio.Task[Any] | None:
        """Signal the workflow, then wait for it; return None if it is closed."""
        handle = self._handle(key, record.invocation_id, record)
        if not await handle.answer(answer):
            return None
        wait = _Wait()
        looking = asyncio.create_task(self._log_missing_worker(handle, wait))
        try:
            accepted = await self._is_accepted(handle, answer, wait)
        finally:
            looking.cancel()
        return self._watch(handle) if accepted else None

    async def is_spent(self, key: SessionKey, invocation_id: str) -> bool:
        """Return whether the workflow has ended before it began an invocation."""
        try:  # the record is stored before the end
            is_open = await self._invocations.handle(key, invocation_id).is_open()
        except RPCError as error:
            if error.status is RPCStatusCode.NOT_FOUND:
                return False
            raise TemporalUnavailableError(f"Temporal did not answer: {error.message}") from error
        return not is_open and await self._sessions.get_invocation(key, invocation_id) is None

    async def cancel(
        self, key: SessionKey, invocation_id: str, record: InvocationRecord | None
    ) -> bool:
        """Request cancellation of the workflow; return False if it is closed."""
        return await self._handle(key, invocation_id, record).cancel()

    async def failure(self, run: asyncio.Task[Any]) -> None:
        """Return None: the store has all information on a failure."""
        del run

    def release(self, run: asyncio.Task[Any]) -> None:
        """Stop waiting; the workflow continues."""
        if run in self._tasks:  # else the workflow has ended
            self._left.append((time.monotonic(), self._tasks[run]))
        self._prune()
        run.cancel()

    def _prune(self) -> None:
        while self._left and self._left[0][0] < time.monotonic() - CLOSE_TIMEOUT:
            self._left.popleft()

    def busy(self) -> bool:
        """Return false: invocations run in workers."""
        return False

    async def close(self) -> None:
        """Stop waiting; the workflows continue.

        An invocation ends in the store a moment before its workflow completes. If an embedded
        worker stopped in between, the workflow would stay open until another worker runs. So this
        waits a moment for recent workflows to complete.
        """
        self._prune()
        left = [*self._tasks.values(), *(handle for _, handle in self._left)]
        self._left.clear()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        with suppress(TimeoutError):
            async with asyncio.timeout(CLOSE_TIMEOUT):
                await asyncio.gather(*map(_at_rest, left), return_exceptions=True)

    def _handle(
        self, key: SessionKey, invocation_id: str, record: InvocationRecord | None
    ) -> InvocationHandle:
        """Return the workflow that owns the invocation's lease, else the one that will own it."""
        lease_owner = TemporalLeaseOwner.parse(record.lease_owner) if record else None
        workflow = lease_owner.workflow_id if lease_owner else None
        return self._invocations.handle(key, invocation_id, workflow=workflow)

    def _watch(self, handle: InvocationHandle) -> asyncio.Task[Any]:
        task = asyncio.create_task(self._until_end(handle))
        self._tasks[task] = handle
        task.add_done_callback(self._forget)
        return task

    def _forget(self, task: asyncio.Task[Any]) -> None:
        self._tasks.pop(task, None)
        if not task.cancelled():
            task.exception()

    async def _is_accepted(
        self, handle: InvocationHandle, answer: InvocationAnswer, wait: "_Wait"
    ) -> bool:
        """Wait until an answer is accepted; return False if the workflow has ended without it.

        Raises:
            InvalidRequestError: The answer was refused.
            NoWorkerError: The answer is kept, but no worker polls the task queue.
            TemporalUnavailableError: Temporal does not respond for a long time; or the workflow has
                ended, and it is unknown whether it had accepted the answer.
        """
        now = asyncio.get_running_loop().time
        looked, ended = now(), None
        delay = ANSWER_POLL
        while True:
            try:
                if await handle.took(answer):
                    return True
                if ended is not None:
                    return False  # queried after its end, so this is final
            except TemporalUnavailableError as silence:
                if ended is not None and now() - ended > SERVER_TIMEOUT:
                    raise TemporalUnavailableError(
                        f"Invocation {handle.invocation_id!r} has ended, and for "
                        f"{SERVER_TIMEOUT:g} s no worker could tell whether it had accepted it: "
                        "check its session, or answer again."
                    ) from silence
            if ended is None and await self._is_stored_in(delay, handle, answer):
                return True
            delay = min(delay * 2, MAX_ANSWER_POLL)
            if ended is None and now() - looked > WORKER_CHECK:
                looked = now()
                if await self._has_ended(handle, wait):
                    if await self._is_stored(handle, answer):
                        return True
                    ended = looked

    async def _has_ended(self, handle: InvocationHandle, wait: "_Wait") -> bool:
        """Return whether a workflow has ended; False if Temporal does not respond.

        Raises:
            NoWorkerError: It has not, and no worker has polled the task queue for long enough.
            TemporalUnavailableError: Temporal does not respond for a long time.
        """
        try:
            is_open = await handle.is_open()
            if is_open and not self._waits_for_worker:
                await self._invocations.check_worker(handle.invocation_id, opened=True)
                wait.has_worker()
        except NoWorkerError:
            if wait.lacks_worker():
                raise
            is_open = True
        except RPCError as error:
            wait.lost(error)
            return False
        wait.answered()
        return not is_open

    async def _log_missing_worker(self, handle: InvocationHandle, wait: "_Wait") -> None:
        await asyncio.sleep(FIRST_LOOK)
        try:
            await self._invocations.check_worker(handle.invocation_id, opened=True)
        except NoWorkerError as error:
            wait.lacks_worker()
            _log_wait(handle, error.message)
        except RPCError as error:
            wait.lost(error)

    async def _is_stored_in(
        self, delay: float, handle: InvocationHandle, answer: InvocationAnswer
    ) -> bool:
        """Return whether the session has an answer; checked when it changes, or after the delay."""
        waited = asyncio.get_running_loop().time() + delay
        with suppress(StoreUnavailableError):
            await self._sessions.wait_for_change(handle.key, after=_NEVER, timeout=delay)
        if await self._is_stored(handle, answer):
            return True
        await asyncio.sleep(max(waited - asyncio.get_running_loop().time(), 0))
        return False

    async def _is_stored(self, handle: InvocationHandle, answer: InvocationAnswer) -> bool:
        """Return whether the session has an answer: an ended invocation has stored all it accepted.

        So the result is known even if no worker is left to replay the workflow. If a different
        answer has the same id, the workflow reports that this one is refused.
        """
        name = answer_event(handle.invocation_id, answer.answer_id or "")
        with suppress(StoreUnavailableError):  # then only the workflow can tell
            stored = await self._sessions.find_event(handle.key, name)
            return stored is not None and stored.event.content == answer.message
        return False

    async def _until_end(self, handle: InvocationHandle) -> InvocationResult:
        """Return the result, however often the connection fails.

        Raises:
            NoWorkerError: The invocation is not open, and no worker polls the task queue.
            TemporalUnavailableError: The server does not respond for a long time.
        """
        wait, waits = _Wait(), FIRST_LOOK
        while True:
            try:
                async with asyncio.timeout(waits):
                    return await self._result(handle)
            except TimeoutError:
                await self._look(handle, wait)
                hurries = wait.lacking and not self._waits_for_worker
                waits = (WORKER_CHECK - FIRST_LOOK) / _LOOKS if hurries else WORKER_CHECK
            except RPCError as error:
                wait.lost(error)
                await asyncio.sleep(0.5)

    async def _result(self, handle: InvocationHandle) -> InvocationResult:
        """Return the result; if the workflow run was reset, the result of the new run."""
        while True:
            try:
                return await handle.result()
            except (InvocationTerminatedError, InvocationNotFoundError):
                record = None
                with suppress(StoreUnavailableError):
                    record = await self._sessions.get_invocation(handle.key, handle.invocation_id)
                chain = TemporalLeaseOwner.parse(record.lease_owner) if record else None
                first_run_id = chain.first_run_id if chain else None
                latest = await self._invocations.after_reset(handle, first_run_id)
                if latest is None:
                    raise
                handle = latest

    async def _look(self, handle: InvocationHandle, wait: "_Wait") -> None:
        """Check an invocation that has not ended, and log why it waits.

        Raises:
            InvocationNotFoundError: It is paused, and its session was deleted.
            NoWorkerError: No worker polls the task queue, and none has for long enough.
            SessionRegressedError: It waits for the repair of a restored store.
            TemporalUnavailableError: Temporal does not respond for a long time.
        """
        try:
            reason = await self._obstacle(handle)
        except SessionRegressedError:
            raise
        except NoWorkerError as error:
            if wait.lacks_worker() and not self._waits_for_worker:
                raise
            reason = error.message
        except RPCError as error:
            if error.status in _AWAY:
                wait.lost(error)
            return
        except StoreUnavailableError:
            return  # the next check repeats it
        else:
            wait.has_worker()
        wait.answered()
        if reason is not None and reason not in wait.said:
            wait.said.add(reason)
            _log_wait(handle, reason)

    async def _obstacle(self, handle: InvocationHandle) -> str | None:
        """Return what temporarily keeps an invocation from continuing; None: nothing does."""
        if await self._lacks(handle):
            missing = await self._missing_worker(handle)
            # A paused invocation was opened. So read the record again after learning that it is
            # paused.
            if await handle.waits() and await self._lacks(handle):
                if await self._replaced_at(handle.key, handle.invocation_id) is not None:
                    await handle.workflow.terminate(reason="its session was deleted")
                    raise deleted_paused(handle.invocation_id)
                raise not_in_store(handle.invocation_id, "is paused")
            if missing is not None:
                raise missing
        return await handle.failing_step(logged_by=self._invocations.client.identity)

    async def _missing_worker(self, handle: InvocationHandle) -> NoWorkerError | None:
        """Return the error of `check_worker`, called first as others outlast short outages."""
        try:
            await self._invocations.check_worker(handle.invocation_id)
        except NoWorkerError as error:
            return error
        return None

    async def _lacks(self, handle: InvocationHandle) -> bool:
        return await self._sessions.get_invocation(handle.key, handle.invocation_id) is None


class _Wait:
    """A wait for a workflow: since when Temporal has not responded, or has listed no worker.

    A server that restarts knows no workers until they poll again. So a missing one is an error only
    if it was missing for some time, and for longer if a request was lost meanwhile.
    """

    def __init__(self) -> None:
        self.said = set[str]()
        """Reasons that were logged, and are not logged again."""
        self.lacking = False
        """Whether no worker polled at the last check."""
        self._lacking_since = 0.0
        self._lost_since: float | None = None
        self._has_lost = False

    def lacks_worker(self) -> bool:
        """Record that no worker polls; return whether that lasts long enough to be an error."""
        now = time.monotonic()
        if not self.lacking:
            self.lacking, self._lacking_since = True, now
        patience = RECONNECT if self._has_lost else WORKER_CHECK - FIRST_LOOK
        return now - self._lacking_since >= patience

    def has_worker(self) -> None:
        """Record that a worker polls, or is not needed."""
        self.lacking = self._has_lost = False

    def answered(self) -> None:
        """Record that Temporal has responded."""
        self._lost_since = None

    def lost(self, error: RPCError) -> None:
        """Record that a request failed.

        Raises:
            TemporalUnavailableError: All requests have failed for `SERVER_TIMEOUT`.
        """
        now = time.monotonic()
        self.lacking, self._has_lost = False, True
        self._lost_since = self._lost_since or now
        if now - self._lost_since > SERVER_TIMEOUT:
            raise TemporalUnavailableError(
                f"Temporal has not answered for {SERVER_TIMEOUT:g} s: {error.message}"
            ) from error


def _log_wait(handle: InvocationHandle, reason: str) -> None:
    logger.warning("invocation.waits", invocation_id=handle.invocation_id, reason=reason)


async def _at_rest(handle: InvocationHandle) -> None:
    while True:
        if await handle.rests():
            return
        await asyncio.sleep(ANSWER_POLL)
