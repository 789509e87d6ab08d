"""Runs invocations as tasks of this process."""

import asyncio
import uuid
from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeVar

from durable_adk.activities.dependencies import Dependencies
from durable_adk.activities.effects import EffectPerformer
from durable_adk.activities.invocation.request import require_no_tool_run
from durable_adk.activities.local_runtime import LocalRuntime, renewed_lease
from durable_adk.apps.app import App
from durable_adk.apps.registry import AppRegistry
from durable_adk.calling.code_scope import keep_running
from durable_adk.client.feed import deleted_paused
from durable_adk.context.step_scope import Services
from durable_adk.errors import InvalidRequestError, StoreUnavailableError
from durable_adk.flows.event_loop import run_invocation
from durable_adk.flows.runtime import Inbox
from durable_adk.partials import PartialChannel
from durable_adk.plugins.plugin_manager import PluginManager
from durable_adk.sessions.lease_owner import LOCAL_PREFIX
from durable_adk.sessions.records import InvocationRecord
from durable_adk.sessions.session import SessionKey
from durable_adk.sessions.session_log import SessionLog
from durable_adk.settings import Limits
from durable_adk.telemetry.identity import TraceIdentity
from durable_adk.telemetry.steps import for_invocation
from durable_adk.telemetry.tracing import current_identity, identity
from durable_adk.wire.checkpoint import Cursor
from durable_adk.wire.messages import (
    InvocationAnswer,
    InvocationRequest,
    InvocationResult,
    workflow_id,
)

T = TypeVar("T")
ANSWER_POLL = 0.02
"""Seconds between checks of an answer, or of a task of another event loop."""


class LocalBackend:
    """Runs invocations as tasks of the event loop that starts them."""

    def __init__(
        self,
        app: App,
        sessions: SessionLog,
        limits: Limits,
        services: Services,
        *,
        partials: PartialChannel | None = None,
        plugin_manager: PluginManager | None = None,
    ) -> None:
        registry = AppRegistry([app])
        self._app = app
        self._plugin_manager = plugin_manager
        self._sessions = sessions
        self._effects = EffectPerformer(
            Dependencies(
                registry=registry,
                sessions=sessions,
                limits=limits,
                services=services,
                partials=partials,
                interrupt=self._interrupt,
                steer=self._steer,
            )
        )
        self._registry = registry
        self._limits = limits
        self._tasks: dict[tuple[SessionKey, str], asyncio.Task[Any]] = {}
        self._inboxes: dict[tuple[SessionKey, str], Inbox] = {}
        self._process = uuid.uuid4().hex
        self.roll_every: int | None = None
        """See `LocalRuntime`; for tests."""

    async def start(self, request: InvocationRequest) -> asyncio.Task[Any]:
        """Start a task, or return the running one with the same ids.

        Raises:
            InvalidRequestError: It claims to be the run of an agent tool, or uses the session of
                one.
            InvocationNotFoundError: The running one is paused, and its session was deleted.
        """
        require_no_tool_run(request.session or "", request.tool_run)
        key = request.key
        name = (key, request.invocation_id or "")
        task = self._tasks.get(name)
        if task is None:
            keep_running(asyncio.get_running_loop(), whoever=False)
            runtime = self._runtime()
            trace = current_identity(TraceIdentity.of(*name))
            task = asyncio.create_task(self._run(runtime, key, request, trace))
            self._tasks[name], self._inboxes[name] = task, runtime.inbox
            task.add_done_callback(lambda done: self._forget(name, done))
        elif self._inboxes[name].state.paused and await self._lacks(*name):
            await _in_loop_of(task, task.cancel)
            raise deleted_paused(name[1])
        return _here(task)

    async def attach(
        self, key: SessionKey, invocation_id: str, record: InvocationRecord | None
    ) -> asyncio.Task[Any] | None:
        """Return the running task; None if it does not run here."""
        del record
        task = self._tasks.get((key, invocation_id))
        return task and _here(task)

    async def answer(
        self, key: SessionKey, record: InvocationRecord, answer: InvocationAnswer
    ) -> asyncio.Task[Any] | None:
        """Put the answer into the task's inbox; return None if it does not run here."""
        name = (key, record.invocation_id)
        task = self._tasks.get(name)
        if task is None:
            return None
        inbox = self._inboxes[name]
        await _in_loop_of(task, inbox.put, answer)
        while not inbox.is_decided(answer):
            if task.done():
                return None
            await asyncio.sleep(ANSWER_POLL)
        if (reason := inbox.refusal(answer)) is not None:
            raise InvalidRequestError(reason)
        return _here(task)

    async def is_spent(self, key: SessionKey, invocation_id: str) -> bool:
        """Return False: a task that has ended leaves its id free."""
        del key, invocation_id
        return False

    async def cancel(
        self, key: SessionKey, invocation_id: str, record: InvocationRecord | None
    ) -> bool:
        """Cancel the task, which commits its closing events."""
        del record
        task = self._tasks.get((key, invocation_id))
        return task is not None and await _in_loop_of(task, task.cancel)

    async def failure(self, run: asyncio.Task[Any]) -> BaseException | None:
        """Wait for the task and return its exception, the object that user code raised."""
        await asyncio.wait({run})
        return None if run.cancelled() else run.exception()

    def release(self, run: asyncio.Task[Any]) -> None:
        """Do nothing: the task continues without the client."""

    def busy(self) -> bool:
        """Return whether an invocation runs in the running event loop."""
        loop = asyncio.get_running_loop()
        return any(task.get_loop() is loop for task in list(self._tasks.values()))

    async def close(self) -> None:
        """Cancel all tasks; each commits its closing events before it ends."""
        tasks = list(self._tasks.values())
        for task in tasks:
            await _in_loop_of(task, task.cancel)
        await asyncio.gather(*map(_here, tasks), return_exceptions=True)
        await self._app.close(self._plugin_manager)

    async def _lacks(self, key: SessionKey, invocation_id: str) -> bool:
        return await self._sessions.get_invocation(key, invocation_id) is None

    async def _interrupt(self, key: SessionKey, record: InvocationRecord) -> None:
        """Cancel a task once: a second time would interrupt its closing events."""
        task = self._tasks.get((key, record.invocation_id))
        if task is None or record.lease_owner != self._lease_owner(record.invocation_id):
            return

        def cancel() -> None:
            if not task.cancelling():
                task.cancel()

        task.get_loop().call_soon_threadsafe(cancel)

    async def _steer(
        self, key: SessionKey, record: InvocationRecord, answer: InvocationAnswer
    ) -> None:
        """Deliver a message to a task, which may be in another event loop."""
        name = (key, record.invocation_id)
        task = self._tasks.get(name)
        if task is not None and record.lease_owner == self._lease_owner(record.invocation_id):
            task.get_loop().call_soon_threadsafe(self._inboxes[name].put, answer)

    def _lease_owner(self, invocation_id: str) -> str:
        return f"{LOCAL_PREFIX}{self._process}:{invocation_id}"

    def _runtime(self) -> LocalRuntime:
        return LocalRuntime(
            self._effects,
            self._registry,
            limits=self._limits,
            run_child=self._run_child,
            roll_every=self.roll_every,
        )

    async def _run_child(self, request: InvocationRequest) -> InvocationResult:
        key = request.key
        name, callers = request.invocation_id or "", identity()
        carrier = callers and callers.carrier(workflow_id(key, name))
        return await self._run(self._runtime(), key, request, TraceIdentity.of(key, name, carrier))

    def _forget(self, name: tuple[SessionKey, str], task: asyncio.Task[Any]) -> None:
        self._tasks.pop(name, None)
        self._inboxes.pop(name, None)
        if not task.cancelled():
            task.exception()  # clients read it from the store; retrieving it avoids a warning

    async def _run(
        self,
        runtime: LocalRuntime,
        key: SessionKey,
        request: InvocationRequest,
        trace: TraceIdentity,
    ) -> InvocationResult:
        name = request.invocation_id or ""
        lease_owner = self._lease_owner(name)
        with for_invocation(key, name, trace):
            async with renewed_lease(self._sessions, key, name):
                try:
                    outcome = await run_invocation(runtime, request, lease_owner=lease_owner)
                    while isinstance(outcome, Cursor):
                        outcome = await run_invocation(runtime, outcome, lease_owner=lease_owner)
                except asyncio.CancelledError:
                    await self._leave(key, name, lease_owner)
                    raise
                else:
                    return outcome

    async def _leave(self, key: SessionKey, invocation_id: str, lease_owner: str) -> None:
        """Leave the queue after a cancellation before opening, so that later messages continue."""
        with suppress(StoreUnavailableError):  # then they wait until the ticket expires
            await self._sessions.leave_queue(
                key, invocation_id=invocation_id, lease_owner=lease_owner
            )


async def _in_loop_of(task: asyncio.Task[Any], function: Callable[..., T], *args: Any) -> T:
    """Call a function in the event loop of a task: `Runner.run` has one of its own."""
    loop = task.get_loop()
    if loop is asyncio.get_running_loop() or loop.is_closed():
        return function(*args)

    async def called() -> T:
        return function(*args)

    return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(called(), loop))


def _here(task: asyncio.Task[Any]) -> asyncio.Task[Any]:
    """Return a task, or a task of the running loop that ends when it does."""
    if task.get_loop() is asyncio.get_running_loop():
        return task

    async def ended() -> Any:
        while not task.done():  # noqa: ASYNC110 - its loop may close as soon as it is done
            await asyncio.sleep(ANSWER_POLL)
        return task.result()

    return asyncio.create_task(ended())
