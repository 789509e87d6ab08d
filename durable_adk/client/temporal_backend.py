"""Runs invocations as workflows on Temporal."""

import asyncio
import time
from collections import deque
from contextlib import suppress
from typing import Any

from temporalio.service import RPCError

from durable_adk.client.invocations import InvocationHandle, Invocations
from durable_adk.errors import (
    InvocationNotFoundError,
    InvocationTerminatedError,
    SessionRegressedError,
    StoreUnavailableError,
    TemporalUnavailableError,
)
from durable_adk.sessions.base_session_service import BaseSessionService, InvocationRecord
from durable_adk.sessions.lease_owner import TemporalHolder
from durable_adk.sessions.session import SessionKey
from durable_adk.wire.messages import (
    InvocationAnswer,
    InvocationRequest,
    InvocationResult,
    answer_event,
)

WORKER_CHECK = 5.0
"""Seconds an invocation may wait to be opened before the client asks whether a worker is there."""
ANSWER_POLL = 0.02
MAX_ANSWER_POLL = 1.0
"""Seconds between two looks at what became of an answer, the first and the most."""
ENDING = 1.0
"""Seconds that a workflow may take to end, or to pause, after who followed it has left."""
PATIENCE = 120.0
"""Seconds the server may be away before a client that waits for a result gives up."""

_NEVER = 2**62
"""After this many events: any change is news."""


class TemporalBackend:
    """Runs invocations as workflows; the task only watches."""

    def __init__(self, invocations: Invocations, sessions: BaseSessionService) -> None:
        self._invocations = invocations
        self._sessions = sessions
        self._tasks: dict[asyncio.Task[Any], InvocationHandle] = {}
        self._left: deque[tuple[float, InvocationHandle]] = deque()
        """What was followed of late, and until when."""

    async def start(self, request: InvocationRequest) -> asyncio.Task[Any]:
        """Start the workflow, or attach to the one of the same ids."""
        return self._watch(await self._invocations.start(request))

    async def attach(
        self, key: SessionKey, invocation_id: str, record: InvocationRecord | None
    ) -> asyncio.Task[Any] | None:
        """Watch a workflow: the one that holds the invocation, whatever its id, or will."""
        return self._watch(self._handle(key, invocation_id, record))

    async def answer(
        self, key: SessionKey, record: InvocationRecord, answer: InvocationAnswer
    ) -> asyncio.Task[Any] | None:
        """Signal the workflow, then watch it; None if it is closed."""
        handle = self._handle(key, record.invocation_id, record)
        if not await handle.answer(answer):
            return None
        if not await self._is_taken(handle, answer):
            return None
        return self._watch(handle)

    async def cancel(
        self, key: SessionKey, invocation_id: str, record: InvocationRecord | None
    ) -> bool:
        """Ask the workflow to end; False if it is closed."""
        return await self._handle(key, invocation_id, record).cancel()

    def release(self, run: asyncio.Task[Any]) -> None:
        """Stop watching; the workflow goes on."""
        if run in self._tasks:  # else it has seen the end
            self._left.append((time.monotonic(), self._tasks[run]))
        self._prune()
        run.cancel()

    def _prune(self) -> None:
        while self._left and self._left[0][0] < time.monotonic() - ENDING:
            self._left.popleft()

    async def close(self) -> None:
        """Stop watching; the workflows go on.

        An invocation ends in the store a moment before its workflow hears of that. A worker that
        stops then, as an embedded one does with this process, drops what it is just given, and the
        workflow would stay open until there is another worker.
        """
        self._prune()
        left = [*self._tasks.values(), *(handle for _, handle in self._left)]
        self._left.clear()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        with suppress(TimeoutError):
            async with asyncio.timeout(ENDING):
                await asyncio.gather(*map(_at_rest, left), return_exceptions=True)

    def _handle(
        self, key: SessionKey, invocation_id: str, record: InvocationRecord | None
    ) -> InvocationHandle:
        """The workflow that holds the invocation, whatever its id, or the one that will."""
        holder = TemporalHolder.parse(record.holder) if record else None
        workflow = holder.workflow_id if holder else None
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

    async def _is_taken(self, handle: InvocationHandle, answer: InvocationAnswer) -> bool:
        """Wait for what becomes of an answer; False if the workflow has ended without it.

        Raises:
            InvalidRequestError: It was refused.
            NoWorkerError: The answer is kept, but nobody is there to take it.
            TemporalUnavailableError: The workflow has ended, and nobody says whether with it.
        """
        now = asyncio.get_running_loop().time
        looked, ended = now(), None
        delay = ANSWER_POLL
        while True:
            try:
                if await handle.took(answer):
                    return True
                if ended is not None:
                    return False  # asked after its end, so this is its last word
            except TemporalUnavailableError as silence:
                if ended is not None and now() - ended > PATIENCE:
                    raise TemporalUnavailableError(
                        f"Nobody has said for {PATIENCE:g} s whether invocation "
                        f"{handle.invocation_id!r}, which has ended, had taken the answer: look at "
                        "its session, or answer again."
                    ) from silence
            if ended is None and await self._is_stored_in(delay, handle, answer):
                return True
            delay = min(delay * 2, MAX_ANSWER_POLL)
            if ended is None and now() - looked > WORKER_CHECK:
                looked = now()
                if await handle.is_open():
                    await self._invocations.check_worker(handle.invocation_id)
                elif await self._is_stored(handle, answer):
                    return True
                else:
                    ended = looked

    async def _is_stored_in(
        self, delay: float, handle: InvocationHandle, answer: InvocationAnswer
    ) -> bool:
        """Whether the session has an answer, looked up when the session has changed, or later."""
        waited = asyncio.get_running_loop().time() + delay
        with suppress(StoreUnavailableError):
            await self._sessions.wait_for_change(handle.key, after=_NEVER, timeout=delay)
        if await self._is_stored(handle, answer):
            return True
        await asyncio.sleep(max(waited - asyncio.get_running_loop().time(), 0))
        return False

    async def _is_stored(self, handle: InvocationHandle, answer: InvocationAnswer) -> bool:
        """Whether the session has an answer; what has ended has stored whatever it took.

        So the answer is known also where no worker is left that could replay the workflow. Of
        another one of its name the workflow says that this one is refused.
        """
        name = answer_event(handle.invocation_id, answer.answer_id or "")
        with suppress(StoreUnavailableError):  # then only the workflow can say
            stored = await self._sessions.find_event(handle.key, name)
            return stored is not None and stored.event.content == answer.message
        return False

    async def _until_end(self, handle: InvocationHandle) -> InvocationResult:
        """The result, however often the connection breaks; NoWorkerError if nobody will run it."""
        loop = asyncio.get_running_loop()
        lost_since: float | None = None
        while True:
            try:
                async with asyncio.timeout(WORKER_CHECK):
                    return await self._result(handle)
            except TimeoutError:
                lost_since = await self._still_waiting(handle, lost_since)
            except RPCError as error:
                lost_since = lost_since or loop.time()
                if loop.time() - lost_since > PATIENCE:
                    raise TemporalUnavailableError(
                        f"Temporal has not answered for {PATIENCE:g} s: {error.message}"
                    ) from error
                await asyncio.sleep(0.5)

    async def _result(self, handle: InvocationHandle) -> InvocationResult:
        """The result; that of the new run, if the one that was followed was reset."""
        while True:
            try:
                return await handle.result()
            except (InvocationTerminatedError, InvocationNotFoundError):
                record = None
                with suppress(StoreUnavailableError):
                    record = await self._sessions.get_invocation(handle.key, handle.invocation_id)
                chain = TemporalHolder.parse(record.holder) if record else None
                first_run_id = chain.first_run_id if chain else None
                latest = await self._invocations.after_reset(handle, first_run_id)
                if latest is None:
                    raise
                handle = latest

    async def _still_waiting(
        self, handle: InvocationHandle, lost_since: float | None
    ) -> float | None:
        """Make sure that somebody will run what is not open yet; the news of a lost connection."""
        try:
            opened = await self._sessions.get_invocation(handle.key, handle.invocation_id)
            if opened is None:
                await self._invocations.check_worker(handle.invocation_id)
            await handle.check_store()
        except SessionRegressedError:
            raise
        except (RPCError, StoreUnavailableError):
            return lost_since  # whoever is away is asked again
        return None


async def _at_rest(handle: InvocationHandle) -> None:
    while True:
        if await handle.rests():
            return
        await asyncio.sleep(ANSWER_POLL)
