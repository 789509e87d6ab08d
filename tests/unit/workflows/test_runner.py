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
BEHIND = activation("resolve_activity", length=8, task=1)
LOCAL = activation("resolve_activity", length=8, task=1)
QUERY = activation("query_workflow", length=8, task=1)
SIGNAL = activation("signal_workflow", length=13, task=3)


@pytest.mark.parametrize(
    ("activations", "refused"),
    [
        ([FIRST, activation("resolve_activity", length=8, task=2), QUERY, SIGNAL], False),
        ([FIRST, QUERY, QUERY, SIGNAL], False),
        ([FIRST, activation("resolve_activity", length=3, task=1), QUERY], False),  # a local one
        ([FIRST, BEHIND, LOCAL], False),  # as in a replay of a workflow that is open
        ([FIRST, activation("resolve_activity", length=8, task=1, size=10), QUERY], False),
        ([FIRST, BEHIND, QUERY], True),
        ([FIRST, BEHIND, LOCAL, QUERY], True),
        ([FIRST, activation("fire_timer", length=8, task=1), SIGNAL], True),
    ],
)
def test_a_query_that_brings_news_without_a_task_fails(
    activations: list[WorkflowActivation], *, refused: bool
) -> None:
    """So does a task that overtakes such a query; what drops the workflow is let through."""
    instance = Instance()
    guarded = guarded_instance(cast("WorkflowInstance", instance))
    *before, last = activations
    for act in before:
        assert not guarded.activate(act).HasField("failed")
    assert guarded.activate(last).HasField("failed") is refused
    assert len(instance.seen) == len(activations) - refused
    removal = activation("remove_from_cache", length=13, task=0)
    assert not guarded.activate(removal).HasField("failed")


def test_a_server_that_tells_no_sizes_may_have_tasks_at_the_same_time() -> None:
    """Nothing is refused there, because nothing shows that news came without a task."""
    guarded = guarded_instance(cast("WorkflowInstance", Instance()))
    for act in (FIRST, BEHIND, QUERY, SIGNAL):
        sizeless = WorkflowActivation()
        sizeless.CopyFrom(act)
        sizeless.history_size_bytes = 0
        assert not guarded.activate(sizeless).HasField("failed")


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
