"""A worker: the process that runs invocations."""

import pkgutil
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Self, TypedDict

from temporalio.client import Client
from temporalio.common import VersioningBehavior, WorkerDeploymentVersion
from temporalio.worker import (
    Interceptor,
    UnsandboxedWorkflowRunner,
    Worker,
    WorkerDeploymentConfig,
    WorkflowRunner,
)
from temporalio.worker.workflow_sandbox import SandboxedWorkflowRunner, SandboxRestrictions

import durable_adk
from durable_adk.apps.app import App
from durable_adk.artifacts.base_artifact_service import BaseArtifactService
from durable_adk.auth.credential_service.base_credential_service import BaseCredentialService
from durable_adk.context.activity import Services
from durable_adk.errors import InvalidRequestError
from durable_adk.log import get_logger
from durable_adk.memory.base_memory_service import BaseMemoryService
from durable_adk.partials import PartialChannel
from durable_adk.serving import Serving
from durable_adk.sessions.base_session_service import BaseSessionService
from durable_adk.settings import DEFAULT_TASK_QUEUE, Limits, Settings
from durable_adk.storage import OwnedStorage, ResultUpload
from durable_adk.telemetry.headers import BindsTrace, HandsOn
from durable_adk.wire.converter import with_our_payloads
from durable_adk.workflows.invocation import InvocationWorkflow

CLOSE_TIMEOUT = 5.0
"""Seconds for the models' connections to be closed."""

MAX_VERSION_NAME = 255

logger = get_logger(__name__)


@dataclass(kw_only=True, frozen=True)
class Versioning:
    """Which build of which deployment a worker is, for Temporal's Worker Versioning (design D6).

    New invocations run on the deployment's current version, which somebody has to set: a worker
    that has just started is given none.
    """

    deployment: str
    """What is deployed as one: the workers of a task queue."""
    build_id: str
    """Of this code."""
    auto_upgrade: bool = False
    """Whether invocations that are open go on with the version that becomes current, as if there
    were no versions; else each ends on the build it began on, also where it continues as new."""

    def __post_init__(self) -> None:
        """Check what Temporal would refuse at each poll.

        Raises:
            InvalidRequestError: A name is missing, or Temporal takes no such name.
        """
        for what, name in (("deployment", self.deployment), ("build id", self.build_id)):
            if not name.strip() or len(name) > MAX_VERSION_NAME:
                raise InvalidRequestError(
                    f"Worker Versioning needs a {what} of 1 to {MAX_VERSION_NAME} characters."
                )
        if set(self.deployment) & set(".:"):
            raise InvalidRequestError(
                f"The name of deployment {self.deployment!r} must not contain . or :; another one "
                "is given by DURABLE_ADK_DEPLOYMENT."
            )

    @classmethod
    def parse(
        cls, settings: Settings, *, task_queue: str, build_id: str | None, auto_upgrade: bool
    ) -> Self | None:
        """What options say, or else the settings; None: no versioning.

        Args:
            settings: Of this process.
            task_queue: After which the deployment is named unless the settings name it.
            build_id: From an option.
            auto_upgrade: From an option.

        Raises:
            InvalidRequestError: They say half of it, or Temporal takes no such names.
        """
        if build_id is None:
            build_id = settings.build_id or None  # an empty variable is none
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
        """The same for Temporal's SDK."""
        pinned, moves = VersioningBehavior.PINNED, VersioningBehavior.AUTO_UPGRADE
        return WorkerDeploymentConfig(
            version=WorkerDeploymentVersion(self.deployment, self.build_id),
            use_worker_versioning=True,
            default_versioning_behavior=moves if self.auto_upgrade else pinned,
        )


@dataclass(kw_only=True, frozen=True)
class WorkerOptions:
    """How a worker runs; the defaults are the measured ones (reliability 10)."""

    task_queue: str = DEFAULT_TASK_QUEUE
    limits: Limits = field(default_factory=Limits)
    max_cached_workflows: int = 1000
    """0 replays every workflow at every task: a test for determinism, not for production."""
    model_task_queues: Mapping[str, str] = field(default_factory=dict[str, str])
    """By a model's name, on which task queue it is called; recorded when an invocation opens."""
    max_task_queue_activities_per_second: float | None = None
    """Of all workers of the task queue together: the server holds them to the latest it was told.
    For a queue of `model_task_queues` that is a model's rate limit. None: any number."""
    max_concurrent: int = 200
    """Activities at a time, local ones included."""
    sandboxed: bool = True
    """Whether the workflow sandbox guards the loop; off it takes half the CPU (D15)."""
    graceful_shutdown: timedelta = timedelta(seconds=10)
    versioning: Versioning | None = None
    """None: any worker of the task queue goes on with any invocation."""


def workflow_runner(*, sandboxed: bool) -> WorkflowRunner:
    """The sandbox passes all of the package but `workflows`, so it guards just that (D15)."""
    if not sandboxed:
        return UnsandboxedWorkflowRunner()
    return SandboxedWorkflowRunner(restrictions=with_our_modules(SandboxRestrictions.default))


def with_our_modules(restrictions: SandboxRestrictions) -> SandboxRestrictions:
    """A sandbox that passes all of the package but `workflows`, and what it stands on."""
    ours = [
        f"durable_adk.{module.name}"
        for module in pkgutil.iter_modules(durable_adk.__path__)
        if module.name != "workflows"
    ]
    return restrictions.with_passthrough_modules(
        *ours, "google", "pydantic", "pydantic_core", "structlog", "sqlalchemy", "opentelemetry"
    )


def with_our_converter(client: Client) -> Client:
    """The client, or one beside it on the same connection that writes values as we do."""
    converter = with_our_payloads(client.data_converter)
    if converter == client.data_converter:
        return client
    config = client.config()
    config["data_converter"] = converter
    return Client(**config)


def interceptors_for(client: Client) -> list[Interceptor]:
    """What carries an invocation's trace, and cares for large payloads outside of Temporal."""
    converter = client.data_converter
    owned = isinstance(converter.external_storage, OwnedStorage)
    return [HandsOn(), BindsTrace(), *([ResultUpload(converter)] if owned else [])]


class Timing(TypedDict):
    """Options of the SDK's worker, by its names."""

    sticky_queue_schedule_to_start_timeout: timedelta
    max_heartbeat_throttle_interval: timedelta
    default_heartbeat_throttle_interval: timedelta


def timing(limits: Limits) -> Timing:
    """How soon the server hears of a worker, and gives what a dead one held to another (1b)."""
    throttle = timedelta(seconds=limits.heartbeat_timeout) / 3
    return Timing(
        # 10 s by default. A busy worker that comes too late costs a replay.
        sticky_queue_schedule_to_start_timeout=timedelta(milliseconds=700),
        max_heartbeat_throttle_interval=throttle,
        default_heartbeat_throttle_interval=throttle,
    )


@asynccontextmanager
async def worker(
    client: Client,
    *,
    apps: Sequence[App],
    session_service: BaseSessionService,
    artifact_service: BaseArtifactService | None = None,
    memory_service: BaseMemoryService | None = None,
    credential_service: BaseCredentialService | None = None,
    partials: PartialChannel | None = None,
    options: WorkerOptions | None = None,
) -> AsyncGenerator[Worker]:
    """A worker that serves apps, running while the context is open.

    At its end it takes no new work, gives what is in flight `graceful_shutdown` to finish, and
    leaves the rest to another worker. User code that keeps it from its work, see
    `Limits.blocked_timeout` and `Limits.max_stuck_threads`, ends it too and cancels the body.

    Args:
        client: Connected; its namespace is where the invocations live.
        apps: What to serve; their names are unique.
        session_service: The store that the clients read too.
        artifact_service: Where contexts save artifacts; None: they refuse to.
        memory_service: Where contexts search memory; None: they refuse to.
        credential_service: Where the credentials are that users gave.
        partials: How the chunks of streamed answers reach clients; None: as the store suggests,
            see `partials_of`.
        options: How to run.

    Raises:
        InvalidRequestError: Two apps have the same name.
        WorkerStuckError: It was ended for that. The code still runs, so end the process too.
    """
    options = options or WorkerOptions()
    services = Services(
        artifacts=artifact_service, memory=memory_service, credentials=credential_service
    )
    serving = Serving(
        client,
        options.task_queue,
        apps=apps,
        session_service=session_service,
        services=services,
        partials=partials,
        limits=options.limits,
        model_task_queues=options.model_task_queues,
        max_concurrent=options.max_concurrent,
    )
    made = _temporal_worker(client, serving, options)
    async with serving.running(made), made, serving.ending_body():
        yield made


def _temporal_worker(client: Client, serving: Serving, options: WorkerOptions) -> Worker:
    client = with_our_converter(client)
    return Worker(
        client,
        task_queue=options.task_queue,
        workflows=[InvocationWorkflow],
        activities=serving.activities,
        workflow_task_executor=serving.workflow_threads,
        interceptors=interceptors_for(client),
        workflow_runner=workflow_runner(sandboxed=options.sandboxed),
        max_cached_workflows=options.max_cached_workflows,
        max_concurrent_activities=options.max_concurrent,
        max_concurrent_local_activities=options.max_concurrent,
        max_concurrent_workflow_tasks=options.max_concurrent
        if options.max_cached_workflows
        else None,
        **timing(options.limits),
        max_task_queue_activities_per_second=options.max_task_queue_activities_per_second,
        graceful_shutdown_timeout=options.graceful_shutdown,
        # Without any the SDK hashes all loaded code, at each start of a process.
        build_id=None if options.versioning else f"durable-adk-{durable_adk.__version__}",
        deployment_config=options.versioning and options.versioning.config(),
    )
