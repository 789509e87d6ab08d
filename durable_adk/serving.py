"""What a worker serves: its apps, the activities that run them, and what these stand on."""

import asyncio
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, cast

from temporalio.client import Client, WorkflowExecutionStatus
from temporalio.service import RPCError, RPCStatusCode
from temporalio.worker import Worker

from durable_adk.activities.commit.staleness import StalenessCheck
from durable_adk.activities.definitions import InvocationActivities
from durable_adk.activities.dependencies import Dependencies
from durable_adk.activities.effects import EffectPerformer
from durable_adk.activities.user_code.event_loop import UserCodeLoop
from durable_adk.activities.user_code.threads import UserCodeThreads
from durable_adk.apps.app import App
from durable_adk.apps.registry import AppRegistry, serve
from durable_adk.context.activity import Services
from durable_adk.errors import TemporalUnavailableError, WorkerStuckError
from durable_adk.log import get_logger
from durable_adk.partials import PartialChannel, partials_of
from durable_adk.sessions.base_session_service import BaseSessionService, InvocationRecord
from durable_adk.sessions.lease_owner import TemporalHolder
from durable_adk.sessions.session import SessionKey
from durable_adk.settings import Limits
from durable_adk.wire.messages import InvocationAnswer
from durable_adk.worker_status import report_stuck, report_working

CLOSE_TIMEOUT = 5.0
"""Seconds for the models' connections to be closed."""

WORKFLOW_THREADS = 500
"""Workflow tasks at a time; as many as the SDK's own threads for them."""

SHUTDOWN = 5.0
"""Seconds that the shutdown of a stuck worker may take beyond its `graceful_shutdown`."""

MAX_IN_PLACE = 32
"""Attempts of a worker that may wait for their sessions in place, and at most every fourth."""

logger = get_logger(__name__)


@dataclass(frozen=True)
class LeaseWatcher:
    """Looks lease holders up in Temporal (design D7)."""

    client: Client

    async def is_alive(self, holder: str) -> bool:
        """Whether the workflow named by `InvocationRecord.holder` is open.

        Holders of other kinds count as alive: their leases expire by themselves.
        """
        parsed = TemporalHolder.parse(holder)
        if parsed is None or parsed.namespace != self.client.namespace:
            return True
        handle = self.client.get_workflow_handle(parsed.workflow_id)
        try:
            description = await handle.describe()
        except RPCError as error:
            if error.status is RPCStatusCode.NOT_FOUND:
                return False
            raise TemporalUnavailableError(f"Cannot look the holder up: {error.message}") from error
        if description.raw_info.first_run_id != parsed.first_run_id:
            return False  # another workflow has taken the id since
        return description.status is WorkflowExecutionStatus.RUNNING

    async def interrupt(self, key: SessionKey, record: InvocationRecord) -> None:
        """Cancel the workflow that runs an invocation; a repeat adds nothing to its history.

        Runs of other kinds are out of reach from here.
        """
        del key
        parsed = TemporalHolder.parse(record.holder)
        if parsed is None or parsed.namespace != self.client.namespace:
            return
        handle = self.client.get_workflow_handle(
            parsed.workflow_id, first_execution_run_id=parsed.first_run_id
        )
        try:
            await handle.cancel()
        except RPCError as error:
            if error.status is not RPCStatusCode.NOT_FOUND:
                raise TemporalUnavailableError(f"Cannot interrupt: {error.message}") from error

    async def steer(
        self, key: SessionKey, record: InvocationRecord, answer: InvocationAnswer
    ) -> None:
        """Tell the workflow that runs an invocation of a message; one that is over hears none."""
        del key
        parsed = TemporalHolder.parse(record.holder)
        if parsed is None or parsed.namespace != self.client.namespace:
            return
        handle = self.client.get_workflow_handle(parsed.workflow_id)
        payload = answer.model_dump(mode="json", by_alias=True, exclude_none=True)
        try:
            await handle.signal("answer", payload)
        except RPCError as error:
            if error.status is not RPCStatusCode.NOT_FOUND:
                raise TemporalUnavailableError(f"Cannot steer: {error.message}") from error


class Serving:
    """The apps of one worker: its activities, and the life of what they run in."""

    def __init__(
        self,
        client: Client,
        task_queue: str,
        *,
        apps: Sequence[App],
        session_service: BaseSessionService,
        services: Services,
        partials: PartialChannel | None,
        limits: Limits,
        model_task_queues: Mapping[str, str],
        max_concurrent: int = 100,
    ) -> None:
        """See `worker`; nothing is open before `running`."""
        watcher = LeaseWatcher(client)
        self._apps = apps
        self._deps = Dependencies(
            registry=AppRegistry.of(apps),
            registry_name=task_queue,
            sessions=session_service,
            limits=limits,
            model_task_queues=model_task_queues,
            is_alive=watcher.is_alive,
            check_store=StalenessCheck(client, session_service, task_queue).check,
            interrupt=watcher.interrupt,
            steer=watcher.steer,
            max_in_place=min(MAX_IN_PLACE, max_concurrent // 4),
            services=services,
            partials=partials or partials_of(session_service),
        )
        self.workflow_threads = UserCodeThreads(lambda: WORKFLOW_THREADS, "durable-adk-workflow")
        """For the worker; those that a custom agent's body blocks are counted with the others."""
        self._user_loop = UserCodeLoop(limits, self.workflow_threads)
        self._stuck: WorkerStuckError | None = None
        self._body: asyncio.Timeout | None = None
        self.activities = InvocationActivities(EffectPerformer(self._deps), self._user_loop).all()
        """For the worker."""

    @asynccontextmanager
    async def running(self, worker: Worker) -> AsyncGenerator[None]:
        """Round the worker's run: workflows find the apps; at the end what is open is closed.

        Raises:
            WorkerStuckError: User code kept the worker from its work, so it was shut down.
        """
        task_queue = self._deps.registry_name
        serve(task_queue, self._deps.registry)
        report_working(task_queue)
        self._user_loop.start()
        async with self._unless_stuck() as whole:
            leaving = asyncio.create_task(self._leave_when_stuck(worker, whole))
            try:
                names = [app.name for app in self._apps]
                logger.info("worker.started", task_queue=task_queue, apps=names)
                yield
            finally:
                leaving.cancel()
                await self._closed()
                logger.info("worker.stopped", task_queue=task_queue)
        if self._stuck is not None:
            raise self._stuck

    @asynccontextmanager
    async def ending_body(self) -> AsyncGenerator[None]:
        """Cancel the body once the worker is stuck.

        Raises:
            WorkerStuckError: It was cancelled for that.
        """
        async with self._unless_stuck() as self._body:
            yield

    @asynccontextmanager
    async def _unless_stuck(self) -> AsyncGenerator[asyncio.Timeout]:
        """`asyncio.timeout` without a time, for what is cancelled when the worker is stuck."""
        limit = asyncio.timeout(None)
        try:
            async with limit:
                yield limit
        except TimeoutError:
            if self._stuck is None or not limit.expired():
                raise
            raise self._stuck from None

    async def _leave_when_stuck(self, worker: Worker, whole: asyncio.Timeout) -> None:
        """Stop polling, say so, and hand the steps that run to other workers."""
        self._stuck = await self._user_loop.stuck()
        shutdown = asyncio.ensure_future(worker.shutdown())
        _end(self._body)
        try:
            report_stuck(self._deps.registry_name, self._stuck.message)
        except OSError as error:
            logger.warning("worker.status_not_written", error_type=type(error).__name__)
        config = cast("dict[str, Any]", worker.config(active_config=True))
        graceful: timedelta = config["graceful_shutdown_timeout"]
        await asyncio.wait([shutdown], timeout=graceful.total_seconds() + SHUTDOWN)
        if not shutdown.done():  # the SDK waits for a workflow's code for as long as that blocks
            shutdown.cancel()
            _end(whole)

    async def _closed(self) -> None:
        """Close the apps; bounded, as user code that blocks must not keep the process."""
        loop = self._user_loop
        if self._stuck is None:
            closing = [asyncio.ensure_future(loop.run(app.close())) for app in self._apps]
            await asyncio.wait(closing, timeout=CLOSE_TIMEOUT)
        await loop.close()
        self.workflow_threads.shutdown()


def _end(body: asyncio.Timeout | None) -> None:
    """Cancel it, unless it has just ended by itself."""
    if body is not None:
        with suppress(RuntimeError):
            body.reschedule(0)
