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
    """Return a workflow that is loaded again after a query has moved it on; see `_Activations`."""
    instance.activate = _Activations(instance).activate
    return instance


class _Activations:
    """What a workflow is told to do. After a query that moved it on, it is loaded again.

    A query that the worker with the workflow in its cache does not answer goes to another one,
    with the whole history. That worker applies all of it, also news behind the last workflow task,
    and keeps the workflow. What comes next, such as a signal, the workflow then sees *after* that
    news. But the task has both, and in a replay the signal comes first: the workflow could decide
    otherwise, and would never replay. So that task is failed, which drops the workflow from the
    cache, and its next attempt begins from the history (tests/chaos/test_queries.py).
    """

    def __init__(self, instance: WorkflowInstance) -> None:
        self._activate = instance.activate
        self._length: int = 0
        self._task: tuple[int, int] = (0, 0)
        """Of the last task: when it began, and the bytes of the history by then."""
        self._is_behind_a_task: bool = False
        """Whether the last news came without a task: it is longer, and no task has begun since."""
        self._is_moved: bool = False

    def activate(self, act: WorkflowActivation) -> WorkflowActivationCompletion:
        """See the base class."""
        jobs = {job.WhichOneof("variant") for job in act.jobs}
        if "query_workflow" in jobs:
            self._is_moved |= self._is_behind_a_task
            return self._activate(act)
        if self._is_moved and "remove_from_cache" not in jobs:
            completion = WorkflowActivationCompletion(run_id=act.run_id)
            completion.failed.failure.message = "A query has moved the workflow on; it is reloaded."
            return completion
        length, task = act.history_length, (act.timestamp.ToNanoseconds(), act.history_size_bytes)
        self._is_behind_a_task = length > self._length and task == self._task
        self._length, self._task = length, task
        return self._activate(act)
