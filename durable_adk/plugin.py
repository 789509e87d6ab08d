"""A Temporal plugin that adds agents to an existing client and worker."""

import inspect
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, cast
from weakref import WeakSet

from temporalio.client import Client, WorkflowHistory
from temporalio.converter import DataConverter
from temporalio.plugin import SimplePlugin
from temporalio.service import ConnectConfig, KeepAliveConfig, ServiceClient
from temporalio.worker import (
    Replayer,
    ReplayerConfig,
    Worker,
    WorkerConfig,
    WorkflowReplayResult,
    WorkflowRunner,
)
from temporalio.worker.workflow_sandbox import SandboxedWorkflowRunner

from durable_adk.apps.app import App
from durable_adk.apps.registry import AppRegistry, serve
from durable_adk.artifacts.base_artifact_service import BaseArtifactService
from durable_adk.auth.credential_service.base_credential_service import BaseCredentialService
from durable_adk.client.connect import KEEP_ALIVE
from durable_adk.context.step_scope import Services
from durable_adk.errors import InvalidRequestError
from durable_adk.extras import require
from durable_adk.google_objects import all_from_google_adk
from durable_adk.memory.base_memory_service import BaseMemoryService
from durable_adk.partials import PartialChannel
from durable_adk.sessions.session_log import SessionLog
from durable_adk.settings import Limits, Webhooks
from durable_adk.wire.converter import data_converter, with_our_payloads
from durable_adk.worker import (
    WORKFLOWS,
    WorkerApps,
    WorkerOptions,
    interceptors_for,
    timing,
    with_our_converter,
)
from durable_adk.workflows.invocation import InvocationWorkflow
from durable_adk.workflows.runner import bind, guarded

_SDK: Mapping[str, object] = {
    name: option.default
    for name, option in inspect.signature(cast("Any", Worker)).parameters.items()
}
"""The defaults of the SDK's worker: options with these values were not chosen by the user."""


class DurableAdkPlugin(SimplePlugin):
    """Serves agents on a worker that also does other work (D18).

    Passed to `Client.connect`, it also applies to that client's workers; passed to a `Worker` or a
    `Replayer`, only to that one. It adds workflow ``Invocation`` with its activities, this
    package's data converter around the existing one (whose codec and storage are kept), the sandbox
    rules, and measured timeouts where the worker's options have the SDK's defaults.

    Without apps it is for code that only calls agents: clients, and workflows with `run_agent`.
    """

    def __init__(
        self,
        *,
        apps: Sequence[App] = (),
        session_service: SessionLog | None = None,
        artifact_service: BaseArtifactService | None = None,
        memory_service: BaseMemoryService | None = None,
        credential_service: BaseCredentialService | None = None,
        partials: PartialChannel | None = None,
        limits: Limits | None = None,
        model_task_queues: Mapping[str, str] | None = None,
        webhooks: Webhooks | None = None,
    ) -> None:
        """Create the plugin; the arguments are those of `worker` and `WorkerOptions`.

        Raises:
            InvalidRequestError: There are apps and no `session_service`, or two with one name.
        """
        super().__init__(  # pyright: ignore[reportUnknownMemberType]: the SDK's `Callable`
            "durable_adk", data_converter=_converter, workflow_runner=_sandbox
        )
        if apps and session_service is None:
            raise InvalidRequestError(
                "DurableAdkPlugin has apps and no session_service; give it the store that the "
                "apps' clients read."
            )
        if webhooks is not None:
            require("webhooks")
        self._apps = all_from_google_adk([*apps])
        self._registry = AppRegistry.of(self._apps)
        self._sessions = session_service
        self._services = Services(
            artifacts=artifact_service, memory=memory_service, credentials=credential_service
        )
        self._partials = partials
        self._limits = limits or Limits()
        self._model_task_queues = model_task_queues or {}
        self._webhooks = webhooks
        self._prepared: list[WorkerApps] = []

    async def connect_service_client(
        self,
        config: ConnectConfig,
        next: Callable[[ConnectConfig], Awaitable[ServiceClient]],  # noqa: A002 - the SDK's name
    ) -> ServiceClient:
        """See base class; keep-alive detects a dead connection sooner."""
        if config.keep_alive_config == KeepAliveConfig.default:
            config.keep_alive_config = KEEP_ALIVE
        return await next(config)

    def configure_worker(self, config: WorkerConfig) -> WorkerConfig:
        """See base class; a worker created by `worker` already has its apps and is unchanged."""
        config = super().configure_worker(config)
        options = cast("dict[str, Any]", config)  # as the SDK's type has unknown parts
        if self._sessions is None or not self._apps:
            return config
        if InvocationWorkflow in options["workflows"]:
            self._check_alone(options["activities"])
            return config
        client: Client = with_our_converter(options["client"])
        # A tuner sets the concurrency itself and excludes this option.
        if options["tuner"] is None:
            tasks = WorkerOptions.max_concurrent_workflow_tasks
            _choose(options, {"max_concurrent_workflow_tasks": tasks})
        served = WorkerApps(
            client,
            options["task_queue"],
            apps=self._apps,
            session_service=self._sessions,
            services=self._services,
            partials=self._partials,
            limits=self._limits,
            model_task_queues=self._model_task_queues,
            max_concurrent_workflow_tasks=options["max_concurrent_workflow_tasks"],
            webhooks=self._webhooks,
        )
        self._prepared.append(served)
        _prepared.add(served)
        options["client"] = client
        options["workflows"] = [*options["workflows"], *WORKFLOWS]
        options["activities"] = [*options["activities"], *served.activities]
        options["interceptors"] = [*options["interceptors"], *interceptors_for(client)]
        graceful = WorkerOptions.graceful_shutdown
        chosen = {
            "graceful_shutdown_timeout": graceful,
            "workflow_task_executor": served.workflow_threads,
            **timing(),
        }
        _choose(options, chosen)
        return config

    def _check_alone(self, registered: Sequence[Any]) -> None:
        """Raise InvalidRequestError if the worker serves the apps of another plugin."""
        others = (one for one in _prepared if one not in self._prepared)
        if any(one.activities[0] in registered for one in others):
            names = ", ".join(repr(app.name) for app in self._apps)
            raise InvalidRequestError(
                f"Another DurableAdkPlugin serves its apps on this worker, so {names} would not be "
                "served; give all apps to one plugin, or each plugin its own worker."
            )

    async def run_worker(
        self,
        worker: Worker,
        next: Callable[[Worker], Awaitable[None]],  # noqa: A002 - the SDK's name
    ) -> None:
        """See base class; closes the apps after the worker ends.

        Raises:
            WorkerStuckError: See `durable_adk.worker.worker`; raised by `Worker.run`.
        """
        config = cast("dict[str, Any]", worker.config(active_config=True))
        registered: list[Any] = config["activities"]
        mine = [one for one in self._prepared if one.activities[0] in registered]
        bind(config["workflow_runner"], worker, mine[0].lost_tasks(worker) if mine else None)
        if not mine:
            return await next(worker)
        self._prepared.remove(mine[0])
        async with mine[0].running(worker):
            return await next(worker)

    def configure_replayer(self, config: ReplayerConfig) -> ReplayerConfig:
        """See base class."""
        config = super().configure_replayer(config)
        workflows = config.get("workflows", [])
        if InvocationWorkflow not in workflows:
            config["workflows"] = [*workflows, *WORKFLOWS]
        return config

    @asynccontextmanager
    async def run_replayer(
        self,
        replayer: Replayer,
        histories: AsyncIterator[WorkflowHistory],
        next: Callable[  # noqa: A002 - the SDK's name
            [Replayer, AsyncIterator[WorkflowHistory]],
            AbstractAsyncContextManager[AsyncIterator[WorkflowReplayResult]],
        ],
    ) -> AsyncGenerator[AsyncIterator[WorkflowReplayResult]]:
        """See base class; registers the apps under the task queues of the histories."""
        async with next(replayer, self._found(histories)) as results:
            yield results

    async def _found(
        self, histories: AsyncIterator[WorkflowHistory]
    ) -> AsyncIterator[WorkflowHistory]:
        """Yield the histories, after registering the apps under their task queues."""
        async for history in histories:
            started = history.events[0].workflow_execution_started_event_attributes
            if self._apps:
                serve(started.task_queue.name, self._registry)
            yield history


_prepared: WeakSet[WorkerApps] = WeakSet()
"""Those of all plugins, so that a plugin detects that another one serves the worker."""


def _converter(existing: DataConverter | None) -> DataConverter:
    return with_our_payloads(existing) if existing else data_converter


def _sandbox(existing: WorkflowRunner | None) -> WorkflowRunner:
    """Return the existing runner, or the SDK's, with this package's sandbox rules."""
    return guarded(existing or SandboxedWorkflowRunner())


def _choose(options: dict[str, Any], ours: Mapping[str, object]) -> None:
    """Replace the SDK's defaults by this package's values."""
    options.update((name, one) for name, one in ours.items() if options[name] == _SDK[name])
