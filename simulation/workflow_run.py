"""One workflow run as the server knows it, and the task in which a worker advances it."""

import hashlib
from dataclasses import dataclass, field
from typing import Any

from temporalio.api.common.v1 import Payload
from temporalio.bridge.proto.workflow_activation import WorkflowActivationJob
from temporalio.bridge.proto.workflow_commands import WorkflowCommand

from simulation.attempts import Scheduled
from simulation.loop import VirtualLoop
from simulation.workflow_instance import WorkflowInstance, initialize

CLOSING = (
    "complete_workflow_execution",
    "fail_workflow_execution",
    "cancel_workflow_execution",
    "continue_as_new_workflow_execution",
)


class NonDeterminismError(Exception):
    """A replay asked for something else than the history says (I13)."""


@dataclass(frozen=True, slots=True)
class Activation:
    """One activation of the workflow: its jobs, its time, and its commands."""

    jobs: list[WorkflowActivationJob]
    now: float
    commands: list[WorkflowCommand]


@dataclass(eq=False, slots=True)
class WorkflowTask:
    """A workflow task: some activations, between which its local activities run."""

    jobs: list[WorkflowActivationJob]
    activations: list[Activation] = field(default_factory=list[Activation])
    locals: dict[int, Scheduled] = field(default_factory=dict[int, Scheduled])
    commands: list[WorkflowCommand] = field(default_factory=list[WorkflowCommand])
    closes: WorkflowCommand | None = None

    @property
    def complete(self) -> bool:
        """Whether the worker has nothing more to do in it."""
        return not self.locals or self.closes is not None


@dataclass(eq=False)
class WorkflowRun:
    """A run: its history, and what is under way."""

    workflow_id: str
    run_id: str
    first_run_id: str
    arguments: list[Payload]
    history: list[WorkflowTask] = field(default_factory=list[WorkflowTask])
    pending: list[WorkflowActivationJob] = field(default_factory=list[WorkflowActivationJob])
    activities: dict[int, Scheduled] = field(default_factory=dict[int, Scheduled])
    timers: dict[int, float] = field(default_factory=dict[int, float])
    task: WorkflowTask | None = None
    cached: WorkflowInstance | None = None
    flags: set[int] = field(default_factory=set[int])
    """What the SDK has written down of how it works."""
    closed: WorkflowCommand | str | None = None
    cancelled_at: int | None = None
    """The task that delivered its cancellation."""
    roll_over_after: int | None = None
    """After how many tasks the server suggests to continue as new."""

    def __post_init__(self) -> None:
        self.pending.insert(0, initialize(self.arguments, self.run_id))

    def begin(self, loop: VirtualLoop, now: float) -> WorkflowTask:
        """Start a task with what is pending, on a worker that may have to replay first.

        Raises:
            NonDeterminismError: The replay went another way.
        """
        if self.cached is None:
            self.cached = self.replayed(loop)
        self.cached.flags = self.flags
        self.task = WorkflowTask(self.pending)
        self.pending = []
        if any(job.HasField("cancel_workflow") for job in self.task.jobs):
            self.cancelled_at = len(self.history)
        self.advance(self.task.jobs, now)
        return self.task

    def advance(self, jobs: list[WorkflowActivationJob], now: float) -> list[WorkflowCommand]:
        """Run the workflow within its task; the commands of this round."""
        if self.task is None or self.cached is None:
            raise NonDeterminismError("There is no task to advance.")
        commands = self.cached.activate(jobs, now=now, suggested=self._suggested(len(self.history)))
        self.task.activations.append(Activation(jobs, now, commands))
        self.task.commands.extend(commands)
        for command in commands:
            if command.WhichOneof("variant") in CLOSING:
                self.task.closes = command
        return commands

    def replayed(self, loop: VirtualLoop) -> WorkflowInstance:
        """A new instance, brought to where the history ends.

        Raises:
            NonDeterminismError: It asked for something else on the way.
        """
        cached = WorkflowInstance(
            loop,
            workflow_id=self.workflow_id,
            run_id=self.run_id,
            first_run_id=self.first_run_id,
        )
        cached.flags = self.flags
        for number, task in enumerate(self.history):
            for past in task.activations:
                commands = cached.activate(
                    past.jobs, now=past.now, replaying=True, suggested=self._suggested(number)
                )
                if commands != past.commands:
                    raise NonDeterminismError(
                        f"Task {number} of {self.run_id} asked for {_brief(past.commands)} and, "
                        f"replayed, for {_brief(commands)}."
                    )
        return cached

    def digest(self) -> bytes:
        """All that a replay of the history depends on, in short."""
        digest = hashlib.blake2b(f"{self.workflow_id}/{self.run_id}".encode(), digest_size=16)
        for past in (past for task in self.history for past in task.activations):
            digest.update(f"{past.now}/{len(past.jobs)}/{len(past.commands)}".encode())
            for told in (*past.jobs, *past.commands):
                digest.update(told.SerializeToString(deterministic=True))
        return digest.digest()

    def told(self) -> list[WorkflowActivationJob]:
        """Return all jobs that it has had, those of the current task included."""
        tasks = [*self.history, *([self.task] if self.task else [])]
        return [job for task in tasks for job in task.jobs]

    def lose_task(self) -> None:
        """Lose the worker of the task; its jobs are delivered again."""
        if self.task is not None:
            self.pending = self.task.jobs + self.pending
            self.task = None
        self.evict()

    def evict(self) -> None:
        """Evict it from the worker's cache."""
        if self.cached is not None:
            self.cached.evict()
            self.cached = None

    def record(self) -> WorkflowTask:
        """Take the finished task into the history."""
        task, self.task = self.task, None
        if task is None:
            raise NonDeterminismError("There is no task to record.")
        self.history.append(task)
        return task

    def _suggested(self, task: int) -> bool:
        return self.roll_over_after is not None and task >= self.roll_over_after


def _brief(commands: list[WorkflowCommand]) -> str:
    return "; ".join(f"{c.WhichOneof('variant')}: {_what(c)}" for c in commands) or "nothing"


def _what(command: WorkflowCommand) -> str:
    inner: Any = getattr(command, command.WhichOneof("variant") or "")
    arguments = getattr(inner, "arguments", None)
    detail = arguments[0].data.decode() if arguments else ""
    return f"{getattr(inner, 'activity_type', '')} {getattr(inner, 'seq', '')} {detail}"
