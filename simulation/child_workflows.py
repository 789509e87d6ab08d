"""Child workflows: how they begin and end, and what becomes of them when their parent ends."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from temporalio.api.common.v1 import WorkflowExecution, WorkflowType
from temporalio.api.failure.v1 import (
    CanceledFailureInfo,
    ChildWorkflowExecutionFailureInfo,
    Failure,
    TerminatedFailureInfo,
)
from temporalio.bridge.proto.child_workflow import (
    Cancellation,
    ChildWorkflowResult,
    Failure as FailureResult,
    ParentClosePolicy,
    Success,
)
from temporalio.bridge.proto.workflow_activation import (
    ResolveChildWorkflowExecution,
    ResolveChildWorkflowExecutionStart,
    ResolveChildWorkflowExecutionStartCancelled,
    ResolveChildWorkflowExecutionStartSuccess,
    WorkflowActivationJob,
)

from simulation.workflow_run import WorkflowRun

_CANCELLED = Failure(message="cancelled", canceled_failure_info=CanceledFailureInfo())
_TERMINATED = Failure(message="terminated", terminated_failure_info=TerminatedFailureInfo())


@dataclass(eq=False)
class Child:
    """One child workflow, as its parent's history has it."""

    parent: WorkflowRun
    command: Any
    run: WorkflowRun | None = None
    """The first run of its chain; None: it has not begun."""


@dataclass(eq=False)
class Children:
    """Those of all runs.

    Args:
        add: Starts a workflow: its id, its arguments, and the run that asks for it.
        cancel: Asks a workflow to end, if it is open.
    """

    add: Callable[[str, list[Any], WorkflowRun], WorkflowRun]
    cancel: Callable[[WorkflowRun], None]
    _all: list[Child] = field(default_factory=list[Child])

    def ask(self, parent: WorkflowRun, command: Any) -> None:
        """Start a child when the task that requests it is complete."""
        self._all.append(Child(parent, command))

    def withdraw(self, parent: WorkflowRun, seq: int) -> None:
        """Cancel one; it has not begun if the same task has asked for it."""
        for child in self._of(parent):
            if child.command.seq != seq:
                continue
            if child.run is not None:
                self.cancel(child.run)
            else:
                self._all.remove(child)
                _tell_start(
                    child,
                    cancelled=ResolveChildWorkflowExecutionStartCancelled(
                        failure=_wrapped(child, _CANCELLED)
                    ),
                )

    def begin(self) -> None:
        """Start those that a task has asked for."""
        for child in self._all:
            if child.run is None:
                command = child.command
                child.run = self.add(command.workflow_id, list(command.input), child.parent)
                started = ResolveChildWorkflowExecutionStartSuccess(run_id=child.run.run_id)
                _tell_start(child, succeeded=started)

    def ended(self, run: WorkflowRun, command: Any) -> None:
        """Tell the parent how its child has ended; and the children that their parent has.

        Args:
            run: The last run of its chain.
            command: What has closed it; None: it was terminated.
        """
        for child in list(self._all):
            if child.run is not None and child.run.first_run_id == run.first_run_id:
                self._all.remove(child)
                if child.parent.closed is None:
                    _tell_end(child, command)
        for child in self._of(run):
            policy = child.command.parent_close_policy
            if policy == ParentClosePolicy.PARENT_CLOSE_POLICY_REQUEST_CANCEL and child.run:
                self.cancel(child.run)

    def _of(self, parent: WorkflowRun) -> list[Child]:
        return [child for child in self._all if child.parent is parent]


def _tell_start(child: Child, **how: Any) -> None:
    job = ResolveChildWorkflowExecutionStart(seq=child.command.seq, **how)
    told = WorkflowActivationJob(resolve_child_workflow_execution_start=job)
    child.parent.pending.append(told)


def _tell_end(child: Child, command: Any) -> None:
    kind = command.WhichOneof("variant") if command is not None else ""
    match kind:
        case "complete_workflow_execution":
            done = Success(result=command.complete_workflow_execution.result)
            result = ChildWorkflowResult(completed=done)
        case "cancel_workflow_execution":
            gone = Cancellation(failure=_wrapped(child, _CANCELLED))
            result = ChildWorkflowResult(cancelled=gone)
        case _:
            failure = command.fail_workflow_execution.failure if command else _TERMINATED
            failed = FailureResult(failure=_wrapped(child, failure))
            result = ChildWorkflowResult(failed=failed)
    job = ResolveChildWorkflowExecution(seq=child.command.seq, result=result)
    child.parent.pending.append(WorkflowActivationJob(resolve_child_workflow_execution=job))


def _wrapped(child: Child, cause: Failure) -> Failure:
    info = ChildWorkflowExecutionFailureInfo(
        workflow_execution=WorkflowExecution(workflow_id=child.command.workflow_id),
        workflow_type=WorkflowType(name=child.command.workflow_type),
    )
    return Failure(
        message="Child Workflow execution failed",
        cause=cause,
        child_workflow_execution_failure_info=info,
    )
