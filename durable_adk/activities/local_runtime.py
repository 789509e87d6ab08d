"""The loop's port in process, for unit tests and scripts."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any, Protocol, TypeVar

from durable_adk.activities.effect_rows import EffectRow, StoreEffect
from durable_adk.activities.in_process import InProcess
from durable_adk.activities.invocation.queue import WaitingStep
from durable_adk.apps.registry import AppRegistry
from durable_adk.calling.closing import abandoned, uninterrupted
from durable_adk.errors import (
    AgentError,
    ModelUnavailableError,
    SessionBusyError,
    StoreUnavailableError,
)
from durable_adk.retrying import CLIENT_TIMEOUT, retrying
from durable_adk.sessions.lease_owner import LOCAL_TTL
from durable_adk.sessions.session import SessionKey
from durable_adk.sessions.session_log import SessionLog
from durable_adk.settings import Limits
from durable_adk.wire.activity_call import ActivityCall
from durable_adk.wire.checkpoint import ReadCheckpointStep
from durable_adk.wire.effect import Attempt, Effect
from durable_adk.wire.messages import InvocationRequest, InvocationResult
from durable_adk.wire.steps import (
    CloseStep,
    CompactStep,
    ToolStep,
)

R = TypeVar("R")
Child = Callable[[InvocationRequest], Awaitable[InvocationResult]]
"""Runs an agent that is used as a tool."""


class Effects(Protocol):
    """Performs single effects; see `effects.EffectPerformer`."""

    def row_of(self, step: Effect[R]) -> EffectRow[R]:
        """Return the table row of a step."""
        ...

    async def perform(self, step: Effect[R], attempt: Attempt | None = None) -> R:
        """Perform one attempt."""
        ...

    async def run_activity(self, step: ToolStep, call: ActivityCall) -> Any:
        """Call the function of an external activity."""
        ...

    async def wait_for_turn(self, step: WaitingStep, busy: SessionBusyError) -> None:
        """Wait until the session may be free."""
        ...


@asynccontextmanager
async def renewed_lease(
    sessions: SessionLog, key: SessionKey, invocation_id: str
) -> AsyncGenerator[None]:
    """Renew an invocation's lease while the body runs: steps may take longer than it lives."""

    async def renew() -> None:
        while True:
            await asyncio.sleep(LOCAL_TTL / 3)
            with suppress(StoreUnavailableError):  # the next renewal still comes in time
                record = await sessions.get_invocation(key, invocation_id)
                if record is not None:
                    await sessions.renew(key, invocation_id=invocation_id, epoch=record.epoch)

    loop, renewing = asyncio.get_running_loop(), asyncio.create_task(renew())
    try:
        yield
    finally:
        if not abandoned(loop):
            renewing.cancel()
            with suppress(asyncio.CancelledError):
                await renewing


class LocalRuntime(InProcess):
    """Implements `Runtime` in this process. An invocation does not outlive the process.

    It retries what Temporal would retry, with the same ids, for `CLIENT_TIMEOUT` seconds. For
    tests, `roll_every` sets the number of model calls after which the loop is torn down and rebuilt
    from its checkpoint, as on Temporal when the history has grown long.
    """

    ends_in_time = True

    def __init__(
        self,
        effects: Effects,
        agents: AppRegistry,
        *,
        limits: Limits,
        run_child: Child | None = None,
        roll_every: int | None = None,
    ) -> None:
        super().__init__()
        self._steps = 0
        self._roll_every = roll_every
        self.rolls = roll_every is not None
        self._effects = effects
        self._limits = limits
        self.agent = agents.agent
        self._run_child = run_child

    def cancelled(self) -> bool:
        """Return whether the task that runs the loop was cancelled."""
        task = asyncio.current_task()
        return task is not None and task.cancelling() > 0

    async def perform(self, step: Effect[R]) -> R:
        """Perform an effect here, with as many attempts as it needs."""
        row = self._effects.row_of(step)
        if isinstance(row, StoreEffect):
            if isinstance(step, ReadCheckpointStep):
                self._steps = 0  # a new run's history is empty
            if row.needs_lease:
                return await self._until_free(row, step)
            return await self._until_stored(step)
        if row.step is CompactStep:  # once: it is due again after the next invocation
            return await self._effects.perform(step)
        attempts = row.attempts(self._limits)
        if attempts is None:
            return await self._until_stored(step)
        self._steps += 1
        return await self._until_available(step, attempts)

    async def _until_available(self, step: Effect[Any], attempts: int) -> Any:
        """Call the model, again while it is unavailable and attempts are left."""
        attempt = 1
        while True:
            try:
                return await self._until_stored(step, Attempt(number=attempt))
            except ModelUnavailableError as error:
                if attempt >= attempts:
                    raise
                delay = error.delay(attempt)
            await asyncio.sleep(delay)
            attempt += 1

    def fullness(self) -> float:
        """Compute it from the number of model calls."""
        return self._steps / self._roll_every if self._roll_every else 0.0

    async def leave_batch(self) -> None:
        """Do nothing: there is no batch."""

    async def run_child(self, request: InvocationRequest) -> InvocationResult:
        """Run the child in this process too."""
        if self._run_child is None:
            raise AgentError("This runtime cannot run an agent as a tool.")
        return await self._run_child(request)

    async def run_activity(self, step: ToolStep, call: ActivityCall) -> Any:
        """Call the activity's function here, once: only Temporal applies its retry policy."""
        return await self._effects.run_activity(step, call)

    async def _until_free(self, row: StoreEffect[Any, Any], step: Any) -> Any:
        """Repeat an effect while another invocation is active in the session, if it waits."""
        while True:
            try:
                # Must not be interrupted: a lease that was taken must be known, to give it back.
                return await uninterrupted(self._until_stored(step))
            except SessionBusyError as error:
                if not row.waits(step):
                    raise
                busy = error
            if self.cancelled() and not isinstance(step, CloseStep):
                raise asyncio.CancelledError
            with suppress(StoreUnavailableError):  # the effect waits for the store as well
                await self._effects.wait_for_turn(step, busy)

    async def _until_stored(self, step: Effect[Any], attempt: Attempt | None = None) -> Any:
        """Repeat an effect until the store is available.

        Safe, because writes check their ids first, and steps read before they act.
        """
        return await retrying(self._effects.perform, CLIENT_TIMEOUT)(step, attempt)
