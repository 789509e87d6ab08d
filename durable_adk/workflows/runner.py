"""How a worker runs workflow code: in the sandbox, and only in workflow tasks."""

from dataclasses import dataclass, field, replace
from typing import Any

from temporalio.bridge.proto.workflow_activation import WorkflowActivation
from temporalio.bridge.proto.workflow_completion import WorkflowActivationCompletion
from temporalio.worker import (
    UnsandboxedWorkflowRunner,
    Worker,
    WorkflowInstance,
    WorkflowInstanceDetails,
    WorkflowRunner,
)
from temporalio.worker.workflow_sandbox import SandboxedWorkflowRunner, SandboxRestrictions

from durable_adk.apps.registry import serving
from durable_adk.workflows.lost_tasks import LostTasks, TaskAttempt

NEW = 3
"""Number of history events of a workflow that has just started."""


def workflow_runner(*, sandboxed: bool) -> WorkflowRunner:
    """Return the workflow runner; a sandbox restricts what bodies of custom agents call (D15)."""
    return guarded(SandboxedWorkflowRunner() if sandboxed else UnsandboxedWorkflowRunner())


def guarded(runner: WorkflowRunner) -> WorkflowRunner:
    """Return our variant of an SDK runner; a custom sandbox only passes our modules."""
    if isinstance(runner, SandboxedWorkflowRunner):
        runner = replace(runner, restrictions=_with_our_modules(runner.restrictions))
        if type(runner) is not SandboxedWorkflowRunner:
            return runner
        return _Sandboxed(restrictions=runner.restrictions, runner_class=runner.runner_class)
    return _Unsandboxed() if type(runner) is UnsandboxedWorkflowRunner else runner


def _with_our_modules(restrictions: SandboxRestrictions) -> SandboxRestrictions:
    """Return restrictions that pass our modules and their dependencies.

    What a sandbox loads again costs each workflow milliseconds, and none of it keeps state.
    """
    return restrictions.with_passthrough_modules(
        "durable_adk",
        "google",
        "pydantic",
        "pydantic_core",
        "structlog",
        "sqlalchemy",
        "opentelemetry",
    )


@dataclass(eq=False)
class Cache:
    """The cached workflows of a worker, any of which it can evict."""

    worker: Worker | None = None
    """The worker; None: not created yet, or a replayer has the runner and gets no queries."""
    lost_tasks: LostTasks | None = None
    """Counts workers lost in workflow tasks; None: they are not counted."""

    def drop(self, run_id: str) -> None:
        """Make the worker evict a workflow as soon as its activation is over."""
        if self.worker:
            # The SDK has no other way. If an SDK lacks this one, the query fails, which also evicts
            # the workflow.
            bridge = self.worker._bridge_worker  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
            bridge.request_workflow_eviction(run_id)


def bind(runner: object, worker: Worker, lost_tasks: LostTasks | None = None) -> None:
    """Set the worker and the lost-task counter of one of this package's runners."""
    if isinstance(runner, (_Sandboxed, _Unsandboxed)):
        runner.cache.worker, runner.cache.lost_tasks = worker, lost_tasks


@dataclass(frozen=True)
class _Sandboxed(SandboxedWorkflowRunner):
    cache: Cache = field(default_factory=Cache)

    def create_instance(self, det: WorkflowInstanceDetails) -> WorkflowInstance:
        if _has_only_our_code(det):
            return guarded_instance(UnsandboxedWorkflowRunner().create_instance(det), self.cache)
        return guarded_instance(_fast(super().create_instance(det)), self.cache)


def _has_only_our_code(det: WorkflowInstanceDetails) -> bool:
    """Return whether a workflow is one of this package's and runs no custom agent's body.

    The sandbox guards what other people wrote. Entering it costs a tenth of a tool turn's calls.
    """
    ours = det.defn.cls.__module__.partition(".")[0] == __name__.partition(".")[0]
    registry = serving(det.info.task_queue)
    return ours and registry.is_known and not registry.has_bodies


def _fast(sandbox: Any) -> WorkflowInstance:
    """Make the SDK's sandbox enter itself only to run workflow code.

    The SDK also enters it several times for each payload, to ask for the payload's context, which
    depends on nothing that a sandbox restricts. An SDK without these private names runs as it does
    by itself.
    """
    names = getattr(sandbox, "globals_and_locals", {})
    inner = getattr(names.get("__temporal_in_sandbox"), "instance", None)
    if inner is not None:
        sandbox.get_serialization_context = inner.get_serialization_context
        sandbox.get_external_store_context = inner.get_external_store_context
    return sandbox


@dataclass(frozen=True)
class _Unsandboxed(UnsandboxedWorkflowRunner):
    cache: Cache = field(default_factory=Cache)

    def create_instance(self, det: WorkflowInstanceDetails) -> WorkflowInstance:
        return guarded_instance(super().create_instance(det), self.cache)


def guarded_instance(instance: WorkflowInstance, cache: Cache) -> WorkflowInstance:
    """Return a workflow that no query advances; see `_Activations`."""
    instance.activate = _Activations(instance, cache).activate
    return instance


class _Activations:
    """Filters activations so that a query never advances a workflow: it could not be replayed.

    If the worker with the cached workflow does not answer a query, another worker gets it, with the
    whole history. That worker applies all events, also those after the last workflow task, and
    would keep the workflow. But a replay applies these events with the next task: at another time,
    with a longer history, and after the signals of that task. The workflow could decide differently
    there, and its history could never be replayed. That task cannot be failed to prevent this: if
    it brings no further events, it is completed with the commands that resulted from the query, and
    the workflow is not activated.

    So these events are withheld from the workflow. The query is answered as of the last task, and
    the worker evicts the workflow (tests/chaos/test_queries.py).

    A query that comes with a task ends that task, even while a local activity runs. The workflow
    would then see the activity's end after the events of the next task, but a replay sees it
    before: in the task that the query ended. So the worker evicts it as well, and loads it again in
    the order of a replay (tests/integration/test_workflow_queries.py).

    Before the first activation of a workflow that the worker has to load, `LostTasks` records the
    attempt. It removes the record when the task is over: when no local activity runs any more, or
    when the worker evicts the workflow.
    """

    def __init__(self, instance: WorkflowInstance, cache: Cache) -> None:
        self._activate = instance.activate
        self._cache = cache
        self._length: int = 0
        self._task: tuple[int, int] = (0, 0)
        """Start time of the last task, and the history's size in bytes at that time."""
        self._is_behind: bool = False
        """Whether history events beyond the last task were withheld."""
        self._locals = set[int]()
        """Sequence numbers of the running local activities."""
        self._counted: TaskAttempt | None = None
        """The current task's attempt, if it is counted."""

    def activate(self, act: WorkflowActivation) -> WorkflowActivationCompletion:
        """See the base class."""
        jobs = {job.WhichOneof("variant") for job in act.jobs}
        if "remove_from_cache" in jobs:
            self._end_task()
            return self._activate(act)
        if "query_workflow" in jobs:
            if self._is_behind or self._locals:
                self._cache.drop(act.run_id)
            return self._activate(act)
        task = (act.timestamp.ToNanoseconds(), act.history_size_bytes)
        # Some test servers report no sizes, and have several tasks at the same time.
        if self._cache.worker and act.history_size_bytes > 0 and task == self._task:
            self._is_behind |= act.history_length > self._length
        completion = WorkflowActivationCompletion(run_id=act.run_id)
        if self._is_behind and task == self._task:
            completion.successful.SetInParent()
            return completion
        if self._is_behind:  # it should have been evicted by now
            completion.failed.failure.message = "A workflow with less than its history is dropped."
            return completion
        self._length, self._task = act.history_length, task
        is_loaded = act.is_replaying or act.history_length > NEW
        if self._cache.lost_tasks and is_loaded and "initialize_workflow" in jobs:
            self._counted = self._cache.lost_tasks.begin(act)
        completion = self._activate(act)
        self._locals -= {job.resolve_activity.seq for job in act.jobs}
        self._locals |= {one.schedule_local_activity.seq for one in completion.successful.commands}
        self._locals.discard(0)
        if not (act.is_replaying or self._locals):
            self._end_task()
        return completion

    def _end_task(self) -> None:
        counted, self._counted = self._counted, None
        if counted and self._cache.lost_tasks:
            self._cache.lost_tasks.end(counted)
