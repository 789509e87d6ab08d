"""A worker: serves apps to Temporal, and runs their invocations."""

import asyncio
import time
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Self, TypedDict, cast

from temporalio.client import Client
from temporalio.common import VersioningBehavior, WorkerDeploymentVersion
from temporalio.worker import (
    Interceptor,
    Worker,
    WorkerDeploymentConfig,
)

from durable_adk import __version__
from durable_adk.activities.attempt_files import AttemptFiles
from durable_adk.activities.commit.staleness import StalenessCheck
from durable_adk.activities.definitions import InvocationActivities
from durable_adk.activities.dependencies import Dependencies
from durable_adk.activities.effects import EffectPerformer
from durable_adk.activities.user_code.event_loop import UserCodeLoop
from durable_adk.activities.user_code.threads import UserCodeThreads
from durable_adk.activities.webhook.deliveries import Deliveries
from durable_adk.agents.llm_agent import LlmAgent
from durable_adk.apps.app import App
from durable_adk.apps.registry import AppRegistry, serve
from durable_adk.artifacts.base_artifact_service import BaseArtifactService
from durable_adk.auth.credential_service.base_credential_service import BaseCredentialService
from durable_adk.calling.code_scope import keep_running
from durable_adk.client.lease_owners import LeaseOwners
from durable_adk.context.step_scope import Services
from durable_adk.errors import DurableAdkError, InvalidRequestError, WorkerStuckError, storable
from durable_adk.extras import require
from durable_adk.google_objects import all_from_google_adk, require_own
from durable_adk.log import get_logger
from durable_adk.memory.base_memory_service import BaseMemoryService
from durable_adk.partials import PartialChannel, partials_of
from durable_adk.sessions.records import ServedApp
from durable_adk.sessions.session_log import SessionLog
from durable_adk.settings import DEFAULT_TASK_QUEUE, Limits, Settings, Webhooks
from durable_adk.storage.payload_driver import OwnedStorage
from durable_adk.storage.result_upload import ResultUpload
from durable_adk.task_queues import polled_by
from durable_adk.telemetry.headers import BindsTrace, PropagatesTrace
from durable_adk.wire.converter import with_our_payloads
from durable_adk.worker_status import report_stuck, report_working
from durable_adk.workflows.deliver_webhook import DeliverWebhookWorkflow
from durable_adk.workflows.invocation import InvocationWorkflow
from durable_adk.workflows.lost_tasks import LostTasks
from durable_adk.workflows.runner import bind, workflow_runner
from durable_adk.workflows.session_reads import ModelRequestsWorkflow, SessionEventsWorkflow

HEARTBEAT_THROTTLE = timedelta(seconds=0.5)
"""Minimum time between two heartbeats of an activity."""
CLOSE_TIMEOUT = 5.0
"""Seconds for closing the models' connections."""
WORKFLOW_THREADS = 500
"""Concurrent workflow tasks: the default size of the SDK's own thread pool for them."""
SHUTDOWN_TIMEOUT = 5.0
"""Seconds for the shutdown of a stuck worker, beyond its `graceful_shutdown`."""
ANNOUNCE = 3600.0
"""Seconds between two announcements of a worker's apps; each counts for `SERVED_FOR`."""
ANNOUNCE_AGAIN = 10.0
"""Seconds until the next one if the store was unavailable."""
MAX_IN_PLACE = 32
"""Maximum number of a worker's attempts that wait in place for their sessions; also at most a
quarter of its concurrent activities."""
MAX_VERSION_NAME = 255
WORKFLOWS: list[type[Any]] = [
    InvocationWorkflow,
    SessionEventsWorkflow,
    ModelRequestsWorkflow,
    DeliverWebhookWorkflow,
]
"""The workflow types of a worker."""

logger = get_logger(__name__)


@dataclass(kw_only=True, frozen=True)
class Versioning:
    """The build and deployment of a worker, for Temporal's Worker Versioning (D6).

    New invocations run on the deployment's current version, which an operator sets: a new build
    gets no invocations before that.
    """

    deployment: str
    """The deployment: all workers of a task queue."""
    build_id: str
    """The build of this code."""
    auto_upgrade: bool = False
    """Whether open invocations move to a version that becomes current. Otherwise each stays on the
    build that started it, also when it continues as new."""

    def __post_init__(self) -> None:
        """Reject names that Temporal would reject at each poll.

        Raises:
            InvalidRequestError: A name is missing, or Temporal would reject it.
        """
        for what, name in (("deployment", self.deployment), ("build id", self.build_id)):
            if not name.strip() or len(name) > MAX_VERSION_NAME:
                raise InvalidRequestError(
                    f"Worker Versioning needs a {what} of 1 to {MAX_VERSION_NAME} characters."
                )
        if set(self.deployment) & set(".:"):
            raise InvalidRequestError(
                f"The deployment name {self.deployment!r} must not contain . or :; set another one "
                "with DURABLE_ADK_DEPLOYMENT."
            )

    @classmethod
    def parse(
        cls, settings: Settings, *, task_queue: str, build_id: str | None, auto_upgrade: bool
    ) -> Self | None:
        """Read the options, else the settings; None: no versioning.

        Args:
            settings: The settings of this process.
            task_queue: The deployment's name unless the settings set it.
            build_id: The option.
            auto_upgrade: The option.

        Raises:
            InvalidRequestError: The build id is missing, or Temporal would reject a name.
        """
        if build_id is None:
            build_id = settings.build_id or None  # an empty variable counts as unset
        auto_upgrade = auto_upgrade or settings.auto_upgrade
        if build_id is not None:
            deployment = settings.deployment or task_queue
            return cls(deployment=deployment, build_id=build_id, auto_upgrade=auto_upgrade)
        if settings.deployment or auto_upgrade:
            raise InvalidRequestError(
                "Worker Versioning needs a build id: give --build-id or DURABLE_ADK_BUILD_ID."
            )
        return None

    def config(self) -> WorkerDeploymentConfig:
        """Return the SDK's deployment configuration."""
        pinned, moves = VersioningBehavior.PINNED, VersioningBehavior.AUTO_UPGRADE
        return WorkerDeploymentConfig(
            version=WorkerDeploymentVersion(self.deployment, self.build_id),
            use_worker_versioning=True,
            default_versioning_behavior=moves if self.auto_upgrade else pinned,
        )


@dataclass(kw_only=True, frozen=True)
class WorkerOptions:
    """How a worker runs; the defaults were measured."""

    task_queue: str = DEFAULT_TASK_QUEUE
    limits: Limits = field(default_factory=Limits)
    max_cached_workflows: int = 1000
    """0 replays every workflow at each task: for tests of determinism, not for production."""
    model_task_queues: Mapping[str, str] = field(default_factory=dict[str, str])
    """Task queues of models, by model name; recorded when an invocation opens."""
    max_task_queue_activities_per_second: float | None = None
    """The limit of all workers of the task queue together; the server uses the latest value sent.
    For a queue of `model_task_queues` this is a model's rate limit. None: no limit."""
    max_concurrent: int = 200
    """Concurrent activities, local ones included."""
    max_concurrent_workflow_tasks: int = 20
    """Concurrent workflow tasks, at least 2. Each takes some 20 ms of the one thread that runs
    Python at a time, and all must end within the workflow task timeout. Tasks that time out are
    repeated, so a worker that accepts too many completes none."""
    sandboxed: bool = True
    """Whether the SDK's sandbox refuses built-ins such as `open` in what bodies call (D15)."""
    graceful_shutdown: timedelta = timedelta(seconds=10)
    versioning: Versioning | None = None
    """None: any worker of the task queue may run any invocation."""
    webhooks: Webhooks | None = None
    """Webhooks for invocations that pause or end; None disables them."""

    def __post_init__(self) -> None:
        """Check that the worker can run at all.

        Raises:
            InvalidRequestError: A number of concurrent activities or workflow tasks is too small.
        """
        # A worker that keeps workflows in memory needs a second task to evict one for another.
        for name, least in (("max_concurrent", 1), ("max_concurrent_workflow_tasks", 2)):
            if (given := getattr(self, name)) < least:
                raise InvalidRequestError(f"{name} is {given}; it must be at least {least}.")


def with_our_converter(client: Client) -> Client:
    """Return the client, or another one on the same connection with this package's converter."""
    converter = with_our_payloads(client.data_converter)
    if converter == client.data_converter:
        return client
    config = client.config()
    config["data_converter"] = converter
    return Client(**config)


def interceptors_for(client: Client) -> list[Interceptor]:
    """Return interceptors that propagate traces and manage payloads in external storage."""
    converter = client.data_converter
    owned = isinstance(converter.external_storage, OwnedStorage)
    return [PropagatesTrace(), BindsTrace(), *([ResultUpload(converter)] if owned else [])]


class Timing(TypedDict):
    """Options of the SDK's worker, under its names."""

    sticky_queue_schedule_to_start_timeout: timedelta
    max_heartbeat_throttle_interval: timedelta
    default_heartbeat_throttle_interval: timedelta


def timing() -> Timing:
    """Return timeouts that decide how soon another worker takes over from a dead one."""
    return Timing(
        # 10 s by default. If a busy worker is late, the workflow is replayed.
        sticky_queue_schedule_to_start_timeout=timedelta(milliseconds=700),
        # Attempts space their heartbeats themselves; one after a notice must not wait.
        max_heartbeat_throttle_interval=HEARTBEAT_THROTTLE,
        default_heartbeat_throttle_interval=HEARTBEAT_THROTTLE,
    )


class WorkerApps:
    """The apps of one worker: their activities, and the threads and loop of their code.

    Opens nothing before `running`.
    """

    def __init__(
        self,
        client: Client,
        task_queue: str,
        *,
        apps: Sequence[App],
        session_service: SessionLog,
        services: Services,
        partials: PartialChannel | None,
        limits: Limits,
        model_task_queues: Mapping[str, str],
        max_concurrent: int = 100,
        max_concurrent_workflow_tasks: int | None,
        webhooks: Webhooks | None = None,
    ) -> None:
        """See `worker`; `max_concurrent_workflow_tasks` is None if the number varies."""
        if webhooks is not None:
            require("webhooks")
        require_own(session_service, services.artifacts, services.credentials)
        self._client = client
        owners = LeaseOwners(client)
        self._apps: list[App] = all_from_google_adk([*apps])
        self._deps = Dependencies(
            registry=AppRegistry.of(self._apps),
            registry_name=task_queue,
            sessions=session_service,
            limits=limits,
            model_task_queues=model_task_queues,
            is_alive=owners.is_alive,
            check_store=StalenessCheck(
                client, session_service, task_queue, [app.name for app in self._apps]
            ).check,
            interrupt=owners.interrupt,
            steer=owners.steer,
            max_in_place=min(MAX_IN_PLACE, max_concurrent // 4),
            services=services,
            partials=partials or partials_of(session_service),
            webhooks=webhooks,
            start_delivery=Deliveries(client, task_queue).start,
        )
        self.workflow_threads = _workflow_threads(max_concurrent_workflow_tasks)
        """Executor of workflow tasks; threads that a custom agent blocks count as stuck threads."""
        self._user_loop = UserCodeLoop(limits, self.workflow_threads)
        self._stuck: WorkerStuckError | None = None
        self._body: asyncio.Timeout | None = None
        self._effects = EffectPerformer(self._deps)
        self._files = AttemptFiles(client)
        self.activities = InvocationActivities(self._effects, self._user_loop, self._files).all()
        """Activities to register with the worker."""

    def lost_tasks(self, worker: Worker) -> LostTasks:
        """Return the counter of workers lost in workflow tasks; call it in the worker's loop."""
        loop = asyncio.get_running_loop()
        return LostTasks(client=worker.client, effects=self._effects, loop=loop)

    @asynccontextmanager
    async def running(self, worker: Worker) -> AsyncGenerator[None]:
        """Surround the worker's run: register the apps for workflows, and close them at the end.

        Raises:
            WorkerStuckError: User code blocked the worker, so it was shut down.
        """
        task_queue = self._deps.registry_name
        serve(task_queue, self._deps.registry)
        report_working(task_queue)
        keep_running(asyncio.get_running_loop(), whoever=False)
        self._deps.build = _build_of(worker)
        _warn_of_graphs(self._apps)
        await asyncio.to_thread(_load_models, self._apps)
        self._user_loop.start()
        async with self._unless_stuck() as whole:
            leaving = asyncio.create_task(self._leave_when_stuck(worker, whole))
            announcing = asyncio.create_task(self._announce())
            noting = asyncio.create_task(self._files.run())
            try:
                names = [app.name for app in self._apps]
                logger.info("worker.started", task_queue=task_queue, apps=names)
                with polled_by(worker):
                    yield
            finally:
                leaving.cancel()
                announcing.cancel()
                noting.cancel()
                await self._closed()
                logger.info("worker.stopped", task_queue=task_queue)
        if self._stuck is not None:
            raise self._stuck

    @asynccontextmanager
    async def ending_body(self) -> AsyncGenerator[None]:
        """Cancel the body when the worker is stuck.

        Raises:
            WorkerStuckError: The body was cancelled for this reason.
        """
        async with self._unless_stuck() as self._body:
            yield

    @asynccontextmanager
    async def _unless_stuck(self) -> AsyncGenerator[asyncio.Timeout]:
        """Enter an `asyncio.timeout` without a deadline that expires when the worker is stuck."""
        limit = asyncio.timeout(None)
        try:
            async with limit:
                yield limit
        except TimeoutError:
            if self._stuck is None or not limit.expired():
                raise
            raise self._stuck from None

    async def _announce(self) -> None:
        """Keep the list of served apps in the store current, for servers without the apps' code."""
        while True:
            wait = ANNOUNCE
            try:
                await self._deps.sessions.announce_apps([*map(self._served, self._apps)])
            except DurableAdkError as error:
                logger.info("worker.apps_not_announced", error_type=error.error_type)
                wait = ANNOUNCE_AGAIN
            await asyncio.sleep(wait)

    def _served(self, app: App) -> ServedApp:
        root = app.root_agent
        return ServedApp(
            name=app.name,
            root_agent_name=root.name,
            description=storable(root.description),
            namespace=self._client.namespace,
            task_queue=self._deps.registry_name,
            update_time=time.time(),
        )

    async def _leave_when_stuck(self, worker: Worker, whole: asyncio.Timeout) -> None:
        """Stop polling, report the reason, and leave the running steps to other workers."""
        self._stuck = await self._user_loop.stuck()
        shutdown = asyncio.ensure_future(worker.shutdown())
        _end(self._body)
        try:
            report_stuck(self._deps.registry_name, self._stuck.message)
        except OSError as error:
            logger.warning("worker.status_not_written", error_type=type(error).__name__)
        graceful: timedelta = _config(worker)["graceful_shutdown_timeout"]
        await asyncio.wait([shutdown], timeout=graceful.total_seconds() + SHUTDOWN_TIMEOUT)
        if not shutdown.done():  # the SDK waits for as long as workflow code blocks
            shutdown.cancel()
            _end(whole)

    async def _closed(self) -> None:
        """Close the apps within a timeout: blocking user code must not keep the process alive."""
        loop = self._user_loop
        if self._stuck is None:
            closing = [asyncio.ensure_future(loop.run(app.close())) for app in self._apps]
            await asyncio.wait(closing, timeout=CLOSE_TIMEOUT)
        await loop.close()
        self.workflow_threads.shutdown()


def _warn_of_graphs(apps: Sequence[App]) -> None:
    """Log what of the apps' graphs is probably a mistake (GR-42)."""
    for app in apps:
        for graph in app.graphs():
            for warning in graph.graph.warnings() if graph.graph else ():
                logger.warning("app.graph", app=app.name, graph=graph.name, warning=warning)


def _load_models(apps: Sequence[App]) -> None:
    """Make the models that agents name, and import what their first calls need."""
    for agent in (agent for app in apps for agent in app.agents()):
        try:
            if isinstance(agent, LlmAgent):
                agent.canonical_model.load()
        except BaseException as error:  # noqa: BLE001 - its first step fails with the reason
            logger.debug("model.not_loaded", error_type=type(error).__name__)


def _config(worker: Worker) -> dict[str, Any]:
    return cast("dict[str, Any]", worker.config(active_config=True))


def _build_of(worker: Worker) -> str:
    """Return the build's name; without Worker Versioning, the SDK's name for it."""
    config = _config(worker)
    deployment: WorkerDeploymentConfig | None = config.get("deployment_config")
    return deployment.version.build_id if deployment else str(config.get("build_id"))


def _workflow_threads(tasks: int | None) -> UserCodeThreads:
    """Return the executor of `tasks` concurrent workflow tasks; None: their number varies."""
    # A workflow that is blocked by its body occupies its task slot for good.
    most = None if tasks is None else tasks // 2
    return UserCodeThreads(lambda: WORKFLOW_THREADS, "durable-adk-workflow", max_outliving=most)


def _end(body: asyncio.Timeout | None) -> None:
    """Expire a timeout, unless its body has just ended."""
    if body is not None:
        with suppress(RuntimeError):
            body.reschedule(0)


@asynccontextmanager
async def worker(
    client: Client,
    *,
    apps: Sequence[App],
    session_service: SessionLog,
    artifact_service: BaseArtifactService | None = None,
    memory_service: BaseMemoryService | None = None,
    credential_service: BaseCredentialService | None = None,
    partials: PartialChannel | None = None,
    options: WorkerOptions | None = None,
) -> AsyncGenerator[Worker]:
    """Run a worker that serves apps while the context is open.

    At the end it takes no new tasks, gives running ones `graceful_shutdown` to finish, and leaves
    the rest to other workers. If user code blocks it, see `Limits.blocked_timeout` and
    `Limits.max_stuck_threads`, the worker ends and the body is cancelled.

    Args:
        client: A Temporal client; invocations run in its namespace.
        apps: The apps to serve; their names must be unique.
        session_service: The session store, shared with the clients.
        artifact_service: Stores artifacts; without it, contexts reject saving them.
        memory_service: Searched by contexts; without it, contexts reject searches.
        credential_service: Stores users' credentials.
        partials: The channel of partial events; None: `partials_of` the session store.
        options: How to run.

    Raises:
        InvalidRequestError: Two apps have the same name.
        WorkerStuckError: User code blocked the worker. That code still runs: end the process.
    """
    options = options or WorkerOptions()
    served = WorkerApps(
        client,
        options.task_queue,
        apps=apps,
        session_service=session_service,
        services=Services(
            artifacts=artifact_service, memory=memory_service, credentials=credential_service
        ),
        partials=partials,
        limits=options.limits,
        model_task_queues=options.model_task_queues,
        max_concurrent=options.max_concurrent,
        max_concurrent_workflow_tasks=options.max_concurrent_workflow_tasks,
        webhooks=options.webhooks,
    )
    made = _temporal_worker(client, served, options)
    async with served.running(made), made, served.ending_body():
        yield made


def _temporal_worker(client: Client, served: WorkerApps, options: WorkerOptions) -> Worker:
    client = with_our_converter(client)
    runner = workflow_runner(sandboxed=options.sandboxed)
    made = Worker(
        client,
        task_queue=options.task_queue,
        workflows=WORKFLOWS,
        activities=served.activities,
        workflow_task_executor=served.workflow_threads,
        interceptors=interceptors_for(client),
        workflow_runner=runner,
        max_cached_workflows=options.max_cached_workflows,
        max_concurrent_activities=options.max_concurrent,
        max_concurrent_local_activities=options.max_concurrent,
        max_concurrent_workflow_tasks=options.max_concurrent_workflow_tasks,
        **timing(),
        max_task_queue_activities_per_second=options.max_task_queue_activities_per_second,
        graceful_shutdown_timeout=options.graceful_shutdown,
        # Without a build id, the SDK hashes all loaded code at each start.
        build_id=None if options.versioning else f"durable-adk-{__version__}",
        deployment_config=options.versioning and options.versioning.config(),
    )
    bind(runner, made, served.lost_tasks(made))
    return made
