"""How a worker runs workflow code: in the sandbox, and never from where a query has left it."""

import pkgutil
from dataclasses import dataclass, replace

from temporalio.bridge.proto.workflow_activation import WorkflowActivation
from temporalio.bridge.proto.workflow_completion import WorkflowActivationCompletion
from temporalio.worker import (
    UnsandboxedWorkflowRunner,
    WorkflowInstance,
    WorkflowInstanceDetails,
    WorkflowRunner,
)
from temporalio.worker.workflow_sandbox import SandboxedWorkflowRunner, SandboxRestrictions

import durable_adk


def workflow_runner(*, sandboxed: bool) -> WorkflowRunner:
    """The sandbox guards only `durable_adk.workflows`, and passes the other modules (D15)."""
    return guarded(SandboxedWorkflowRunner() if sandboxed else UnsandboxedWorkflowRunner())


def guarded(runner: WorkflowRunner) -> WorkflowRunner:
    """Return a runner of the SDK as ours; of somebody else's, a sandbox passes our modules."""
    if isinstance(runner, SandboxedWorkflowRunner):
        runner = replace(runner, restrictions=_with_our_modules(runner.restrictions))
        if type(runner) is not SandboxedWorkflowRunner:
            return runner
        return _Sandboxed(restrictions=runner.restrictions, runner_class=runner.runner_class)
    return _Unsandboxed() if type(runner) is UnsandboxedWorkflowRunner else runner


def _with_our_modules(restrictions: SandboxRestrictions) -> SandboxRestrictions:
    """Restrictions that pass the package's modules except `workflows`, and their dependencies."""
    ours = [
        f"durable_adk.{module.name}"
        for module in pkgutil.iter_modules(durable_adk.__path__)
        if module.name != "workflows"
    ]
    return restrictions.with_passthrough_modules(
        *ours, "google", "pydantic", "pydantic_core", "structlog", "sqlalchemy", "opentelemetry"
    )


@dataclass(frozen=True)
class _Sandboxed(SandboxedWorkflowRunner):
    def create_instance(self, det: WorkflowInstanceDetails) -> WorkflowInstance:
        return guarded_instance(super().create_instance(det))


class _Unsandboxed(UnsandboxedWorkflowRunner):
    def create_instance(self, det: WorkflowInstanceDetails) -> WorkflowInstance:
        return guarded_instance(super().create_instance(det))


def guarded_instance(instance: WorkflowInstance) -> WorkflowInstance:
    """Return a workflow that never goes on from where a query has left it; see `_Activations`."""
    instance.activate = _Activations(instance).activate
    return instance


class _Activations:
    """What a workflow is told to do. A query that has moved it on fails, and drops it.

    A query that the worker with the workflow in its cache does not answer goes to another one,
    with the whole history. That worker applies all of it, also news behind the last workflow task,
    and would keep the workflow. But a replay applies that news with the next task: at another time,
    with a longer history, and after the signals of that task. The workflow could decide otherwise
    there, and would never replay. The task cannot be refused for it: if it brings no further news,
    it is completed with the commands that came of the query, and nobody asks the workflow.

    So the query fails, which drops the workflow from the cache. A query that is sent again waits
    for the task (tests/chaos/test_queries.py).
    """

    def __init__(self, instance: WorkflowInstance) -> None:
        self._activate = instance.activate
        self._length: int = 0
        self._task: tuple[int, int] = (0, 0)
        """Of the last task: when it began, and the bytes of the history by then."""
        self._is_moved: bool = False
        """Whether news has come without a task: it is longer, and no task has begun since."""

    def activate(self, act: WorkflowActivation) -> WorkflowActivationCompletion:
        """See the base class."""
        jobs = {job.WhichOneof("variant") for job in act.jobs}
        if "remove_from_cache" in jobs:
            return self._activate(act)
        is_query = "query_workflow" in jobs
        task = (act.timestamp.ToNanoseconds(), act.history_size_bytes)
        # A query that waits for a local activity may be overtaken by the task.
        if self._is_moved and (is_query or task != self._task):
            return _failed(act)
        if not is_query:
            # Some servers for tests tell no sizes, and have several tasks at the same time.
            is_behind = act.history_size_bytes > 0 and task == self._task
            self._is_moved |= is_behind and act.history_length > self._length
            self._length, self._task = act.history_length, task
        return self._activate(act)


def _failed(act: WorkflowActivation) -> WorkflowActivationCompletion:
    completion = WorkflowActivationCompletion(run_id=act.run_id)
    completion.failed.failure.message = "A query has moved the workflow on; send it again."
    return completion
