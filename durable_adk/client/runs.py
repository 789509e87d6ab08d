"""The two ways a runner runs invocations: in this process, and on Temporal."""

import asyncio
import uuid
from contextlib import suppress
from typing import Any

from temporalio.service import RPCError

from durable_adk.activities.effects import WorldEffects
from durable_adk.activities.opening import LOCAL_TTL
from durable_adk.activities.world import World
from durable_adk.apps.app import App
from durable_adk.apps.registry import AppRegistry
from durable_adk.client.invocations import InvocationHandle, Invocations
from durable_adk.errors import StoreUnavailableError, TemporalUnavailableError
from durable_adk.flows.event_loop import run_invocation
from durable_adk.holders import LOCAL_PREFIX, TemporalHolder
from durable_adk.messages import InvocationRequest, InvocationResult
from durable_adk.runtime import LocalRuntime
from durable_adk.sessions.base_session_service import BaseSessionService, InvocationRecord
from durable_adk.sessions.session import SessionKey
from durable_adk.settings import Limits

WORKER_CHECK = 5.0
"""Seconds an invocation may wait to be opened before the client asks whether a worker is there."""
PATIENCE = 120.0
"""Seconds the server may be away before a client that waits for a result gives up."""


class LocalRuns:
    """Runs invocations as tasks of the current event loop."""

    def __init__(self, app: App, sessions: BaseSessionService, limits: Limits) -> None:
        registry = AppRegistry([app])
        self._app = app
        self._sessions = sessions
        self._effects = WorldEffects(World(registry=registry, sessions=sessions, limits=limits))
        self._runtime = LocalRuntime(self._effects, registry, limits=limits)
        self._tasks: dict[tuple[SessionKey, str], asyncio.Task[Any]] = {}
        self._process = uuid.uuid4().hex

    async def start(self, request: InvocationRequest) -> asyncio.Task[Any]:
        """Start a task, or find the running one of the same ids."""
        key = SessionKey(request.app, request.user, request.session or "")
        name = (key, request.invocation_id or "")
        task = self._tasks.get(name)
        if task is None:
            task = asyncio.create_task(self._run(key, request))
            self._tasks[name] = task
            task.add_done_callback(lambda done: self._forget(name, done))
        return task

    async def attach(
        self, key: SessionKey, invocation_id: str, record: InvocationRecord | None
    ) -> asyncio.Task[Any] | None:
        """The running task, if it runs here."""
        del record
        return self._tasks.get((key, invocation_id))

    def release(self, run: asyncio.Task[Any]) -> None:
        """A client that leaves cancels nothing: the task goes on."""

    async def close(self) -> None:
        """Cancel what runs; each seals its session before it ends."""
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._app.close()

    def _forget(self, name: tuple[SessionKey, str], task: asyncio.Task[Any]) -> None:
        self._tasks.pop(name, None)
        if not task.cancelled():
            task.exception()  # whoever follows has it from the store; without one it is no warning

    async def _run(self, key: SessionKey, request: InvocationRequest) -> InvocationResult:
        holder = f"{LOCAL_PREFIX}{self._process}:{request.invocation_id}"
        renewing = asyncio.create_task(self._renew(key, request.invocation_id or ""))
        try:
            return await run_invocation(self._runtime, request, holder=holder)
        finally:
            renewing.cancel()
            with suppress(asyncio.CancelledError):
                await renewing

    async def _renew(self, key: SessionKey, invocation_id: str) -> None:
        """Keep the lease during steps that take longer than its time to live."""
        while True:
            await asyncio.sleep(LOCAL_TTL / 3)
            with suppress(StoreUnavailableError):  # the next time is before the lease expires
                record = await self._sessions.get_invocation(key, invocation_id)
                if record is not None:
                    await self._sessions.renew(key, invocation_id=invocation_id, epoch=record.epoch)


class TemporalRuns:
    """Runs invocations as workflows; the task only watches."""

    def __init__(self, invocations: Invocations, sessions: BaseSessionService) -> None:
        self._invocations = invocations
        self._sessions = sessions
        self._tasks: set[asyncio.Task[Any]] = set()

    async def start(self, request: InvocationRequest) -> asyncio.Task[Any]:
        """Start the workflow, or attach to the one of the same ids."""
        return self._watch(await self._invocations.start(request))

    async def attach(
        self, key: SessionKey, invocation_id: str, record: InvocationRecord | None
    ) -> asyncio.Task[Any] | None:
        """Watch a workflow: the one that holds the invocation, whatever its id, or will."""
        holder = TemporalHolder.parse(record.holder) if record else None
        return self._watch(
            self._invocations.handle(
                key, invocation_id, workflow=holder.workflow_id if holder else None
            )
        )

    def release(self, run: asyncio.Task[Any]) -> None:
        """Stop watching; the workflow goes on."""
        run.cancel()

    async def close(self) -> None:
        """Stop watching; the workflows go on."""
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _watch(self, handle: InvocationHandle) -> asyncio.Task[Any]:
        task = asyncio.create_task(self._until_end(handle))
        self._tasks.add(task)
        task.add_done_callback(self._forget)
        return task

    def _forget(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled():
            task.exception()

    async def _until_end(self, handle: InvocationHandle) -> InvocationResult:
        """The result, however often the connection breaks; NoWorkerError if nobody will run it."""
        loop = asyncio.get_running_loop()
        lost_since: float | None = None
        while True:
            try:
                async with asyncio.timeout(WORKER_CHECK):
                    return await handle.result()
            except TimeoutError:
                lost_since = await self._still_waiting(handle, lost_since)
            except RPCError as error:
                lost_since = lost_since or loop.time()
                if loop.time() - lost_since > PATIENCE:
                    raise TemporalUnavailableError(
                        f"Temporal has not answered for {PATIENCE:g} s: {error.message}"
                    ) from error
                await asyncio.sleep(0.5)

    async def _still_waiting(
        self, handle: InvocationHandle, lost_since: float | None
    ) -> float | None:
        """Make sure that somebody will run what is not open yet; the news of a lost connection."""
        try:
            opened = await self._sessions.get_invocation(handle.key, handle.invocation_id)
            if opened is None:
                await self._invocations.check_worker(handle.invocation_id)
        except (RPCError, StoreUnavailableError):
            return lost_since  # whoever is away is asked again
        return None
