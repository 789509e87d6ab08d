"""Workflows that a query has moved on are loaded again, and no others."""

from dataclasses import dataclass
from typing import cast

import pytest
from temporalio.bridge.proto.workflow_activation import WorkflowActivation, WorkflowActivationJob
from temporalio.bridge.proto.workflow_completion import WorkflowActivationCompletion
from temporalio.worker import WorkflowInstance
from temporalio.worker.workflow_sandbox import SandboxedWorkflowRunner

from durable_adk.workflows.runner import guarded, guarded_instance


class Instance:
    """Has seen some activations."""

    def __init__(self) -> None:
        """Have seen none."""
        self.seen = list[WorkflowActivation]()

    def activate(self, act: WorkflowActivation) -> WorkflowActivationCompletion:
        """Note it."""
        self.seen.append(act)
        return WorkflowActivationCompletion()


def activation(job: str, *, length: int, task: int, size: int = 9) -> WorkflowActivation:
    """One with a job, of a history, after a task of a second; clocks may stand still."""
    act = WorkflowActivation(history_length=length, history_size_bytes=task * 100 + size)
    act.timestamp.FromSeconds(task)
    one = WorkflowActivationJob()
    getattr(one, job).SetInParent()
    act.jobs.append(one)
    return act


FIRST = activation("initialize_workflow", length=3, task=1)
QUERY = activation("query_workflow", length=8, task=1)


@pytest.mark.parametrize(
    ("activations", "refused"),
    [
        ([FIRST, activation("resolve_activity", length=8, task=2), QUERY], False),
        ([FIRST, QUERY, QUERY], False),
        ([FIRST, activation("resolve_activity", length=3, task=1), QUERY], False),  # a local one
        ([FIRST, activation("resolve_activity", length=8, task=1)], False),
        ([FIRST, activation("resolve_activity", length=8, task=1, size=10), QUERY], False),
        ([FIRST, activation("resolve_activity", length=8, task=1), QUERY], True),
        ([FIRST, activation("fire_timer", length=8, task=1), QUERY, QUERY], True),
    ],
)
def test_a_task_after_news_that_only_a_query_has_brought_is_refused(
    activations: list[WorkflowActivation], *, refused: bool
) -> None:
    """News without a new task, and then a query; what drops the workflow is let through."""
    instance = Instance()
    guarded = guarded_instance(cast("WorkflowInstance", instance))
    for act in activations:
        assert not guarded.activate(act).HasField("failed")
    done = guarded.activate(activation("signal_workflow", length=13, task=3))
    assert done.HasField("failed") is refused
    assert len(instance.seen) == len(activations) + (not refused)
    assert not guarded.activate(activation("remove_from_cache", length=13, task=0)).HasField(
        "failed"
    )


@dataclass(frozen=True)
class Theirs(SandboxedWorkflowRunner):
    """A sandbox of somebody else."""

    audit: str = ""


def test_a_sandbox_of_another_class_stays_one() -> None:
    """With what it adds; only our modules are passed, too."""
    runner = guarded(Theirs(audit="y"))
    assert isinstance(runner, Theirs)
    assert runner.audit == "y"
    assert "durable_adk.wire" in runner.restrictions.passthrough_modules
