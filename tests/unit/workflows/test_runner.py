"""No query moves a workflow on."""

from dataclasses import dataclass
from types import SimpleNamespace
from typing import cast

import pytest
from temporalio.bridge.proto.workflow_activation import WorkflowActivation, WorkflowActivationJob
from temporalio.bridge.proto.workflow_completion import WorkflowActivationCompletion
from temporalio.worker import Worker, WorkflowInstance
from temporalio.worker.workflow_sandbox import SandboxedWorkflowRunner

from durable_adk.workflows.lost_tasks import LostTasks
from durable_adk.workflows.runner import Cache, guarded, guarded_instance


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
    """One with a job, of a history, after a task of a second; clocks may stall."""
    act = WorkflowActivation(history_length=length, history_size_bytes=task * 100 + size)
    act.timestamp.FromSeconds(task)
    one = WorkflowActivationJob()
    getattr(one, job).SetInParent()
    act.jobs.append(one)
    return act


FIRST = activation("initialize_workflow", length=3, task=1)
NEXT = activation("resolve_activity", length=8, task=2)
BEHIND = activation("resolve_activity", length=8, task=1)
LOCAL = activation("resolve_activity", length=3, task=1)
QUERY = activation("query_workflow", length=8, task=1)
SIGNAL = activation("signal_workflow", length=13, task=3)
REMOVAL = activation("remove_from_cache", length=13, task=0)


class Bridge:
    """Has dropped some workflows."""

    def __init__(self) -> None:
        """Have dropped none."""
        self.dropped = list[str]()

    def request_workflow_eviction(self, run_id: str) -> None:
        """Note it."""
        self.dropped.append(run_id)


def guarded_by(bridge: Bridge | None) -> tuple[Instance, WorkflowInstance]:
    """An instance as it is, and as a worker runs it; None: a replayer."""
    instance = Instance()
    worker = bridge and cast("Worker", SimpleNamespace(_bridge_worker=bridge))
    return instance, guarded_instance(cast("WorkflowInstance", instance), Cache(worker))


@pytest.mark.parametrize(
    ("activations", "told", "dropped"),
    [
        ([FIRST, NEXT, QUERY, SIGNAL], 4, False),
        ([FIRST, QUERY, QUERY, SIGNAL], 4, False),
        ([FIRST, LOCAL, QUERY, SIGNAL], 4, False),
        ([FIRST, activation("resolve_activity", length=8, task=1, size=10), QUERY], 3, False),
        ([FIRST, BEHIND, QUERY], 2, True),
        ([FIRST, BEHIND, activation("fire_timer", length=8, task=1), QUERY], 2, True),
    ],
)
def test_news_without_a_task_is_not_told(
    activations: list[WorkflowActivation], *, told: int, dropped: bool
) -> None:
    """A query brings such news; it is answered without, and the worker drops the workflow."""
    bridge = Bridge()
    instance, guarded = guarded_by(bridge)
    for act in (*activations, REMOVAL):
        assert not guarded.activate(act).HasField("failed")
    assert len(instance.seen) == told + 1
    assert bool(bridge.dropped) is dropped


class Local(Instance):
    """Starts a local activity."""

    def activate(self, act: WorkflowActivation) -> WorkflowActivationCompletion:
        """See base class."""
        completion = super().activate(act)
        if act.jobs[0].HasField("initialize_workflow"):
            completion.successful.commands.add().schedule_local_activity.seq = 1
        return completion


@pytest.mark.parametrize("ended", [True, False])
def test_a_query_beside_a_local_activity_drops_the_workflow(*, ended: bool) -> None:
    """It ends the task, and the activity's end would come behind the news of the next one."""
    bridge, worker = Bridge(), SimpleNamespace()
    worker._bridge_worker = bridge
    cache = Cache(cast("Worker", worker))
    guarded = guarded_instance(cast("WorkflowInstance", Local()), cache)
    end = activation("resolve_activity", length=3, task=1)
    end.jobs[0].resolve_activity.seq = 1
    for act in [FIRST, *[end] * ended, QUERY]:
        guarded.activate(act)
    assert bool(bridge.dropped) is not ended


def test_a_task_for_a_workflow_that_lacks_news_fails() -> None:
    """The worker loads the workflow again for its next attempt, with the news."""
    instance, guarded = guarded_by(Bridge())
    for act in (FIRST, BEHIND):
        guarded.activate(act)
    assert guarded.activate(SIGNAL).HasField("failed")
    assert len(instance.seen) == 1


def test_a_replay_of_a_workflow_that_is_open_has_its_news() -> None:
    """There is no query then, and who replays wants to see what comes of it."""
    instance, guarded = guarded_by(None)
    for act in (FIRST, BEHIND, SIGNAL):
        assert not guarded.activate(act).HasField("failed")
    assert len(instance.seen) == 3


def test_a_server_that_tells_no_sizes_may_have_tasks_at_the_same_time() -> None:
    """Everything is applied there, because nothing shows that news came without a task."""
    instance, guarded = guarded_by(Bridge())
    for act in (FIRST, BEHIND, QUERY, SIGNAL):
        sizeless = WorkflowActivation()
        sizeless.CopyFrom(act)
        sizeless.history_size_bytes = 0
        assert not guarded.activate(sizeless).HasField("failed")
    assert len(instance.seen) == 4


@dataclass(frozen=True)
class Theirs(SandboxedWorkflowRunner):
    """A sandbox of somebody else."""

    audit: str = ""


def test_a_sandbox_of_another_class_stays_one() -> None:
    """With what it adds; only our modules are passed, too."""
    runner = guarded(Theirs(audit="y"))
    assert isinstance(runner, Theirs)
    assert runner.audit == "y"
    assert "durable_adk" in runner.restrictions.passthrough_modules


class Counts:
    """Counts the workers that are lost."""

    def __init__(self) -> None:
        """Have counted none."""
        self.said = list[str]()

    def begin(self, act: WorkflowActivation) -> str:
        """Note it."""
        assert act.jobs[0].HasField("initialize_workflow")
        self.said.append("begins")
        return "this"

    def end(self, this: str) -> None:
        """Note it."""
        assert this == "this"
        self.said.append("ends")


def replayed(act: WorkflowActivation) -> WorkflowActivation:
    """The same, of a task that has completed before."""
    made = WorkflowActivation(is_replaying=True)
    made.MergeFrom(act)
    return made


@pytest.mark.parametrize(
    ("activations", "said"),
    [
        ([FIRST, NEXT, REMOVAL], []),
        ([replayed(FIRST)], ["begins"]),
        ([replayed(FIRST), replayed(NEXT)], ["begins"]),
        ([replayed(FIRST), NEXT, SIGNAL], ["begins", "ends"]),
        ([replayed(FIRST), REMOVAL], ["begins", "ends"]),
        ([activation("initialize_workflow", length=6, task=1), REMOVAL], ["begins", "ends"]),
    ],
)
def test_the_worker_of_a_loaded_workflow_is_lost_unless_its_task_ends(
    activations: list[WorkflowActivation], *, said: list[str]
) -> None:
    """F12: the task that comes behind the replay; or it fails, and the workflow is dropped."""
    counts = Counts()
    cache = Cache(lost_tasks=cast("LostTasks", counts))
    guarded = guarded_instance(cast("WorkflowInstance", Instance()), cache)
    for act in activations:
        guarded.activate(act)
    assert counts.said == said


def test_a_task_is_not_over_before_its_local_activities() -> None:
    """F12: they may run user code."""
    counts = Counts()
    cache = Cache(lost_tasks=cast("LostTasks", counts))
    guarded = guarded_instance(cast("WorkflowInstance", Local()), cache)
    end = activation("resolve_activity", length=6, task=1)
    end.jobs[0].resolve_activity.seq = 1
    guarded.activate(activation("initialize_workflow", length=6, task=1))
    assert counts.said == ["begins"]
    guarded.activate(end)
    assert counts.said == ["begins", "ends"]
