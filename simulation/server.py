"""The server and its workers: everything that can happen next, and what can go wrong with it."""

from collections.abc import Callable, Sequence
from typing import Any

from temporalio.api.common.v1 import Payload
from temporalio.api.failure.v1 import Failure
from temporalio.bridge.proto.activity_result import ActivityResolution
from temporalio.bridge.proto.workflow_activation import (
    CancelWorkflow,
    FireTimer,
    ResolveActivity,
    SignalWorkflow,
    WorkflowActivationJob,
)
from temporalio.bridge.proto.workflow_commands import WorkflowCommand

from durable_adk.activities.dependencies import Dependencies
from durable_adk.errors import StoreUnavailableError
from durable_adk.wire.converter import data_converter
from simulation.activity_results import cancelled, completed, failed, timed_out
from simulation.attempts import Attempt, Executor, Gate, Scheduled, Worker
from simulation.child_workflows import Children
from simulation.faults import FAULTS
from simulation.loop import Clock, VirtualLoop
from simulation.workflow_run import WorkflowRun, WorkflowTask

HEARTBEAT = 2.0
"""Seconds until a lost attempt is given to another worker."""
Item = tuple[str, Any]
"""Something that can happen next: its kind, and whom it happens to."""
_CONVERTER = data_converter.payload_converter


class Server:
    """Workflow runs, their activities, and two workers that run them."""

    def __init__(
        self, clock: Clock, world: Callable[[], Dependencies], is_stored: Callable[[Any], bool]
    ) -> None:
        self.clock = clock
        self.loop = VirtualLoop(clock)
        self.executor = Executor(self.loop, is_stored)
        self.workers = [Worker(world), Worker(world)]
        self.runs: list[WorkflowRun] = []
        self.ready: list[Scheduled] = []
        """Activities that wait for a worker."""
        self._children = Children(self._begin_child, self._cancel_open)

    # ----- what clients do

    def start(
        self, workflow_id: str, argument: Any, *, roll_over_after: int | None = None
    ) -> WorkflowRun:
        """Start a workflow."""
        return self._add(workflow_id, _payloads(argument), None, roll_over_after)

    def _add(
        self, workflow_id: str, arguments: list[Payload], first: str | None, rolls: int | None
    ) -> WorkflowRun:
        run_id = f"run-{len(self.runs) + 1}"
        run = WorkflowRun(workflow_id, run_id, first or run_id, arguments, roll_over_after=rolls)
        self.runs.append(run)
        return run

    def _begin_child(
        self, workflow_id: str, arguments: list[Payload], parent: WorkflowRun
    ) -> WorkflowRun:
        return self._add(workflow_id, arguments, None, parent.roll_over_after)

    def signal(self, run: WorkflowRun, name: str, argument: Any) -> None:
        """Send a signal to the open run of the workflow."""
        job = SignalWorkflow(signal_name=name, input=_payloads(argument), originating_event_id=1)
        self.newest(run).pending.append(WorkflowActivationJob(signal_workflow=job))

    def cancel(self, run: WorkflowRun) -> None:
        """Ask the workflow to end."""
        job = WorkflowActivationJob(cancel_workflow=CancelWorkflow(reason="asked"))
        self.newest(run).pending.append(job)

    def _cancel_open(self, run: WorkflowRun) -> None:
        if self.newest(run).closed is None:
            self.cancel(run)

    def terminate(self, run: WorkflowRun, *, frozen: bool = False) -> None:
        """Close the workflow at once; its activities continue, now or at the very end."""
        run = self.newest(run)
        for gate in self.executor.gates:
            if frozen and gate.attempt.activity.run is run:
                gate.attempt.parked = "ghost"
        for activity in [*run.activities.values(), *(run.task.locals.values() if run.task else ())]:
            self._give_up(activity)
        run.lose_task()
        run.closed = "terminated"
        self._children.ended(run, None)
        self.ready = [activity for activity in self.ready if activity.run is not run]

    def reset(self, run: WorkflowRun) -> None:
        """Reset the workflow to its first task, and apply its signals again.

        Its activities go on, as those of a workflow that was terminated do.
        """
        run = self.newest(run)
        told = [*run.told(), *run.pending]
        self.terminate(run)
        run.closed = "reset"
        again = self._add(run.workflow_id, run.arguments, run.first_run_id, run.roll_over_after)
        again.pending += [job for job in told if job.HasField("signal_workflow")]

    def newest(self, run: WorkflowRun) -> WorkflowRun:
        """The last run of a chain."""
        return next(r for r in reversed(self.runs) if r.workflow_id == run.workflow_id)

    # ----- what can happen next

    def enabled(self) -> list[Item]:
        """Return what can happen, in the default order."""
        gates = self.executor.gates
        gates[:] = [gate for gate in gates if not gate.open]
        items: list[Item] = []
        for run in self.runs:
            if run.closed is None:
                if run.task is None:
                    if run.pending:
                        items.append(("task", run))
                elif run.task.complete:
                    items.append(("end", run))
        now = self.clock.now
        items += [("start", activity) for activity in self.ready if activity.not_before <= now]
        items += [("gate", gate) for gate in gates if not gate.attempt.parked]
        items += [("cancel", a.current) for run in self.runs for a in self._to_cancel(run)]
        return items

    def sleepers(self, kinds: Sequence[str]) -> list[Item]:
        """Frozen attempts that may wake up: ``late`` ones when another attempt has ended."""
        return [
            ("gate", gate)
            for gate in self.executor.gates
            if gate.attempt.parked in kinds and not gate.open and gate.attempt.overtaken(kinds)
        ]

    def next_time(self, *, steps: bool) -> float | None:
        """When something is due that is not yet; within `steps` too, or only to the server."""
        times = [activity.not_before for activity in self.ready]
        times += [t for run in self.runs if run.closed is None for t in run.timers.values()]
        timer = self.loop.next_timer() if steps else None
        times += [] if timer is None else [timer]
        return min(times, default=None)

    def advance_time(self, now: float) -> None:
        """Let time pass."""
        self.clock.now = max(now, self.clock.now)
        for run in self.runs:
            if run.closed is None:
                due = sorted((t, seq) for seq, t in run.timers.items() if t <= self.clock.now)
                for _, seq in due:
                    del run.timers[seq]
                    run.pending.append(WorkflowActivationJob(fire_timer=FireTimer(seq=seq)))
        self.loop.fire()
        self._drain()

    def happen(self, item: Item, *, worker: int = 0) -> None:
        """Let it happen."""
        kind, whom = item
        match kind:
            case "task":
                self._process(whom, whom.begin(self.loop, self.clock.now))
            case "end":
                self._finish(whom)
            case "start":
                self.ready.remove(whom)
                self.executor.start(whom, self.workers[worker], worker)
                self._drain()
            case "cancel":
                whom.told = True
                self.executor.cancel(whom)
                self._drain()
            case _:
                self._answer(whom)

    # ----- what can go wrong

    def faults(self, item: Item) -> tuple[str, ...]:
        """What may happen instead."""
        kind, whom = item
        if kind == "task":
            return ("evict",) if whom.cached is not None else ()
        if kind == "end":
            return ("die", "crash")
        if kind != "gate" or whom.attempt.lost:
            return ()
        return FAULTS[whom.attempt.activity.local].get(whom.name, ())

    def fail(self, item: Item, fault: str) -> None:
        """Let that happen instead."""
        kind, whom = item
        if fault == "crash":
            self._crash()
        elif kind == "task":
            whom.evict()
        elif kind == "end":
            self._lose_task(whom, frozen=False)
        elif fault in ("refuse", "dropack"):
            self._answer(whom, StoreUnavailableError())
        else:
            self._lose(whom, fault)

    def _crash(self) -> None:
        """Every worker dies."""
        for attempt in self.executor.all:
            # Those that were given up are on other machines, which only seemed to be dead.
            attempt.dead = attempt.dead or not attempt.lost
        for run in self.runs:
            if run.closed is None:
                for activity in list(run.activities.values()):
                    self._retry(activity, HEARTBEAT)
                self._lose_task(run, frozen=False)
        for worker in self.workers:
            worker.restart()

    def _lose(self, gate: Gate, fault: str) -> None:
        """The worker of one attempt dies, freezes, or is only taken for dead."""
        attempt = gate.attempt
        activity = attempt.activity
        attempt.lost = True
        if fault == "die":
            attempt.dead = True
            self.workers[attempt.worker].restart()
        elif fault in ("late", "ghost", "outlast"):
            attempt.parked = "late" if fault == "outlast" else fault
            attempt.parked_at = len(activity.run.history)
        if not activity.local:
            self._retry(activity, 0.0 if fault == "double" else HEARTBEAT)
        elif fault in ("timeout", "outlast"):
            self._resolve(activity, timed_out())
        else:
            self._lose_task(activity.run, frozen=fault != "die")

    def _lose_task(self, run: WorkflowRun, *, frozen: bool) -> None:
        """Lose the worker of a workflow task; if it is frozen, its local activities continue."""
        for activity in run.task.locals.values() if run.task else ():
            self._give_up(activity)
            if activity.current is not None:
                activity.current.dead = activity.current.dead or not frozen
        self.ready = [item for item in self.ready if not (item.local and item.run is run)]
        run.lose_task()

    def _give_up(self, activity: Scheduled) -> None:
        if activity.current is not None:
            activity.current.lost = True
        activity.done = True

    def _retry(self, activity: Scheduled, delay: float) -> None:
        """Have another attempt of an activity made, if its last one is of no use."""
        attempt = activity.current
        if attempt is None or activity.done or activity in self.ready:
            return
        attempt.lost = True
        if activity.cancel_requested:
            message = "The worker was lost."
            self._resolve(activity, failed(activity, Failure(message=message)))
            return
        activity.not_before = self.clock.now + delay
        self.ready.append(activity)

    # ----- tasks

    def _process(self, run: WorkflowRun, task: WorkflowTask) -> None:
        """See to the local activities of a task's last activation."""
        for command in task.activations[-1].commands:
            match command.WhichOneof("variant"):
                case "schedule_local_activity":
                    local = Scheduled.of(run, command.schedule_local_activity, local=True)
                    task.locals[local.seq] = local
                    self.ready.append(local)
                case "request_cancel_local_activity":
                    local = task.locals[command.request_cancel_local_activity.seq]
                    self._give_up(local)
                    self._resolve(local, cancelled(local))
                case _:
                    pass
        self._drain()

    def _finish(self, run: WorkflowRun) -> None:
        """The worker reports a task; refused if it would close a run that has news (F26)."""
        task = run.task
        if task is None or (task.closes is not None and run.pending):
            self._lose_task(run, frozen=True)
            return
        for local in task.locals.values():
            self._give_up(local)
        run.record()
        for command in task.commands:
            self._command(run, command)
        self._children.begin()

    def _command(self, run: WorkflowRun, command: WorkflowCommand) -> None:
        kind = command.WhichOneof("variant") or ""
        match kind:
            case "schedule_activity":
                activity = Scheduled.of(run, command.schedule_activity, local=False)
                run.activities[activity.seq] = activity
                self.ready.append(activity)
            case "request_cancel_activity":
                self._request_cancel(run.activities.get(command.request_cancel_activity.seq))
            case "start_timer":
                timer = command.start_timer
                delay = timer.start_to_fire_timeout.ToMicroseconds() / 1e6
                run.timers[timer.seq] = self.clock.now + delay
            case "cancel_timer":
                run.timers.pop(command.cancel_timer.seq, None)
            case "schedule_local_activity" | "request_cancel_local_activity" | "set_patch_marker":
                pass
            case "start_child_workflow_execution":
                self._children.ask(run, command.start_child_workflow_execution)
            case "cancel_child_workflow_execution":
                seq = command.cancel_child_workflow_execution.child_workflow_seq
                self._children.withdraw(run, seq)
            case "continue_as_new_workflow_execution":
                self._close(run, command)
                arguments = list(command.continue_as_new_workflow_execution.arguments)
                self._add(run.workflow_id, arguments, run.first_run_id, run.roll_over_after)
            case _:
                self._close(run, command)
                self._children.ended(run, command)

    def _close(self, run: WorkflowRun, command: WorkflowCommand) -> None:
        run.closed = command
        run.evict()
        for activity in run.activities.values():
            self._give_up(activity)
        self.ready = [activity for activity in self.ready if activity.run is not run]

    def _request_cancel(self, activity: Scheduled | None) -> None:
        if activity is None or activity.done:
            return
        activity.cancel_requested = True
        if activity in self.ready:
            self.ready.remove(activity)
            self._resolve(activity, cancelled(activity))
        elif activity.cancellation != _WAIT:
            self._resolve(activity, cancelled(activity))  # the run does not wait for its end

    def _to_cancel(self, run: WorkflowRun) -> list[Scheduled]:
        return [
            activity
            for activity in run.activities.values()
            if activity.cancel_requested and (attempt := activity.current) is not None
            if not (attempt.lost or attempt.told)
        ]

    # ----- attempts

    def _answer(self, gate: Gate, error: Exception | None = None) -> None:
        self.executor.gates.remove(gate)
        if error is None:
            gate.future.set_result(None)
        else:
            gate.future.set_exception(error)
        self._drain()

    def _drain(self) -> None:
        self.loop.drain()
        while self.executor.ended:
            self._ended(self.executor.ended.pop(0))

    def _ended(self, attempt: Attempt) -> None:
        """An attempt reports its end."""
        activity = attempt.activity
        if attempt.lost or activity.done or activity.current is not attempt:
            return
        outcome = attempt.outcome
        if isinstance(outcome, Payload):
            self._resolve(activity, completed(outcome))
            return
        if not isinstance(outcome, Exception):
            self._resolve(activity, cancelled(activity))
            return
        failure = Failure()
        data_converter.failure_converter.to_failure(outcome, _CONVERTER, failure)
        info = failure.application_failure_info
        last = activity.max_attempts and activity.attempts >= activity.max_attempts
        if info.non_retryable or last or activity.cancel_requested:
            self._resolve(activity, failed(activity, failure))
            return
        activity.not_before = self.clock.now + (info.next_retry_delay.ToMicroseconds() / 1e6 or 0.1)
        self.ready.append(activity)

    def _resolve(self, activity: Scheduled, result: ActivityResolution) -> None:
        activity.done = True
        job = ResolveActivity(seq=activity.seq, result=result, is_local=activity.local)
        jobs = [WorkflowActivationJob(resolve_activity=job)]
        run: WorkflowRun = activity.run
        if not activity.local:
            run.activities.pop(activity.seq, None)
            run.pending += jobs
        elif run.task is not None:
            run.task.locals.pop(activity.seq, None)
            run.advance(jobs, self.clock.now)
            self._process(run, run.task)


_WAIT = 1
"""`ActivityCancellationType.WAIT_CANCELLATION_COMPLETED`."""


def _payloads(argument: Any) -> list[Payload]:
    return _CONVERTER.to_payloads([argument])
