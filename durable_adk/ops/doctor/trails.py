"""What an invocation's workflow did to the store, read from its histories.

A history holds the results of commits but not what was committed: the input of a local activity is
never recorded (design D4). The code that made it is deterministic, so replaying it over the history
makes it again, to the byte: an interceptor writes down what the loop asked for and what the history
says came of it. Nothing runs meanwhile, as a replay only looks activities up.
"""

import json
import re
from collections.abc import Collection, Iterable
from contextlib import suppress
from copy import deepcopy
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from temporalio import workflow
from temporalio.api.enums.v1 import EventType
from temporalio.api.history.v1 import HistoryEvent
from temporalio.client import Client, WorkflowExecution, WorkflowExecutionStatus, WorkflowHistory
from temporalio.converter import DataConverter, WorkflowSerializationContext
from temporalio.runtime import Runtime, TelemetryConfig
from temporalio.service import RPCError
from temporalio.worker import (
    Interceptor,
    Replayer,
    StartActivityInput,
    StartLocalActivityInput,
    WorkflowInboundInterceptor,
    WorkflowInterceptorClassInput,
    WorkflowOutboundInterceptor,
)

from durable_adk.apps.app import App
from durable_adk.apps.registry import AppRegistry, serve
from durable_adk.errors import DurableAdkError
from durable_adk.ops.doctor.begun import begun_calls
from durable_adk.sessions.session import SessionKey
from durable_adk.wire.converter import with_our_payloads
from durable_adk.wire.steps import Opened, OpenStep, ToolStep
from durable_adk.worker import workflow_runner
from durable_adk.workflows.invocation import TYPE_NAME, InvocationWorkflow


@dataclass(eq=False)
class Act:
    """One activity, as the loop asked for it."""

    name: str
    step: Any
    """A value of `durable_adk.wire.steps`."""
    at: float
    """Workflow time when it was asked for, in seconds since the epoch."""
    result: Any = None
    done: bool = False
    """Whether the history says how it ended, and that was well."""


@dataclass(kw_only=True)
class Trail:
    """What the runs of one workflow did, in the order in which they asked for it."""

    workflow_id: str
    first_run_id: str
    is_open: bool
    acts: list[Act] = field(default_factory=list[Act])
    failure: str | None = None
    """Why its history cannot be replayed."""
    begun: list[ToolStep] = field(default_factory=list[ToolStep])
    """The calls that it waits for and that may have begun; none, if it is not open."""
    told: int = 0
    """Number of the last event that the history tells of without being replayed."""

    def go_on(self, later: "Trail") -> None:
        """Add the run that this one was continued as."""
        self.is_open = self.is_open or later.is_open
        self.acts += later.acts
        self.begun = later.begun
        self.failure = self.failure or later.failure
        self.told = max(self.told, later.told)

    @property
    def opening(self) -> tuple[OpenStep, Opened] | None:
        """The step that opened the invocation and what came of it; None: it was not opened."""
        for act in self.acts:
            if act.done and isinstance(act.result, Opened) and act.result.record is not None:
                return act.step, act.result
        return None

    @property
    def key(self) -> SessionKey | None:
        """The session; None: it was not opened."""
        return self.opening[0].key if self.opening else None


class _Outbound(WorkflowOutboundInterceptor):
    acts: list[Act]

    def start_activity(self, input: StartActivityInput) -> workflow.ActivityHandle[Any]:  # noqa: A002  # the SDK's name
        return self._noted(input, super().start_activity(input))

    def start_local_activity(
        self,
        input: StartLocalActivityInput,  # noqa: A002  # the SDK's name
    ) -> workflow.ActivityHandle[Any]:
        return self._noted(input, super().start_local_activity(input))

    def _noted(
        self,
        asked: StartActivityInput | StartLocalActivityInput,
        handle: workflow.ActivityHandle[Any],
    ) -> workflow.ActivityHandle[Any]:
        # A copy: the loop goes on with the objects, as `Invocation.commit` does with its event.
        step = asked.args[0].model_copy(deep=True)
        act = Act(name=asked.activity, step=step, at=workflow.time())
        self.acts.append(act)

        def end(done: workflow.ActivityHandle[Any]) -> None:
            if not done.cancelled() and done.exception() is None:
                act.done, act.result = True, deepcopy(done.result())

        handle.add_done_callback(end)
        return handle


class _Recorder(Interceptor):
    """Notes the acts of one replay."""

    def __init__(self) -> None:
        self.acts: list[Act] = []

    def workflow_interceptor_class(
        self,
        input: WorkflowInterceptorClassInput,  # noqa: A002  # the SDK's name
    ) -> type[WorkflowInboundInterceptor]:
        """See the base class."""
        del input
        noted = type("_Noted", (_Outbound,), {"acts": self.acts})

        class Inbound(WorkflowInboundInterceptor):
            def init(self, outbound: WorkflowOutboundInterceptor) -> None:
                super().init(noted(outbound))

        return Inbound


_ALL = f"WorkflowType = '{TYPE_NAME}'"


async def ids_of(client: Client) -> tuple[set[str], set[str]]:
    """Ids of all workflows that Temporal still knows, and of those of them that are open."""
    ids: set[str] = set()
    open_ids: set[str] = set()
    async for run in client.list_workflows(_ALL):
        ids.add(run.id)
        if run.status is WorkflowExecutionStatus.RUNNING:
            open_ids.add(run.id)
    return ids, open_ids


async def runs_of(client: Client, *, but: Collection[str]) -> list[WorkflowExecution]:
    """The runs of workflows, oldest first, except closed ones of some workflows."""
    runs = [
        run
        async for run in client.list_workflows(_ALL)
        if run.status is WorkflowExecutionStatus.RUNNING or run.id not in but
    ]
    return sorted(runs, key=lambda run: run.start_time)


async def trails_of(
    client: Client, runs: Iterable[WorkflowExecution], *, apps: Iterable[App] = ()
) -> list[Trail]:
    """The trails of workflows.

    Args:
        client: Where they are.
        runs: Of theirs, oldest first.
        apps: Whose agents' code is at hand; only that of custom agents is needed.
    """
    found: dict[str, Trail] = {}
    for run in runs:
        with suppress(RPCError):  # its retention has ended meanwhile
            trail = await _trail(client, run, apps)
            first = found.setdefault(trail.first_run_id, trail)
            if first is not trail:
                first.go_on(trail)
    return list(found.values())


async def _trail(client: Client, execution: WorkflowExecution, apps: Iterable[App]) -> Trail:
    handle = client.get_workflow_handle(execution.id, run_id=execution.run_id)
    history = await handle.fetch_history()
    context = WorkflowSerializationContext(client.namespace, execution.id)
    converter = client.data_converter.with_context(context)
    started = history.events[0].workflow_execution_started_event_attributes
    trail = Trail(
        workflow_id=execution.id,
        first_run_id=started.first_execution_run_id,
        is_open=execution.status is WorkflowExecutionStatus.RUNNING,
        told=max([await _told(event, converter) for event in history.events], default=0),
    )
    if apps:
        serve(execution.task_queue, AppRegistry(apps))
    trail.acts, trail.failure = await _replayed(client, history)
    if trail.is_open and trail.failure is None:
        try:
            trail.begun = await begun_calls(client, execution, history, converter)
        except DurableAdkError as error:  # what was asked for is lost, or its key is not here
            trail.failure = error.message
    return trail


async def _told(event: HistoryEvent, converter: DataConverter) -> int:
    """The sequence number that a commit's marker holds; 0: it is none, or cannot be read."""
    details = event.marker_recorded_event_attributes.details
    # Asked first: looking a key up would add it, and make a marker of any event.
    if "data" not in details or "result" not in details:
        return 0
    with suppress(KeyError, IndexError, TypeError, ValueError, DurableAdkError):
        data = json.loads(details["data"].payloads[0].data)
        if data["activity_type"] == "commit_event":
            (told,) = await converter.decode_wrapper(details["result"])
            return int(told)
    return 0


def has_begun(history: WorkflowHistory) -> bool:
    """Whether a worker was asked for anything: the SDK replays no other history, and never says so.

    Such is one with a start in the future, or of a run that has continued another one at once.
    """
    asked = EventType.EVENT_TYPE_WORKFLOW_TASK_SCHEDULED
    return any(event.event_type == asked for event in history.events)


async def _replayed(client: Client, history: WorkflowHistory) -> tuple[list[Act], str | None]:
    if not has_begun(history):
        return [], None
    recorder = _Recorder()
    replayer = Replayer(
        workflows=[InvocationWorkflow],
        # The lease owner is made of it.
        namespace=client.namespace,
        data_converter=with_our_payloads(client.data_converter),
        # What the interceptor notes has to come out of where the workflow's code runs.
        workflow_runner=workflow_runner(sandboxed=False),
        interceptors=[recorder],
        runtime=_quiet_runtime(),
    )
    result = await replayer.replay_workflow(history, raise_on_replay_failure=False)
    failure = result.replay_failure
    return recorder.acts, None if failure is None else _reason(failure)


def _reason(failure: Exception) -> str:
    """What the SDK means; it shows a failure as the value that it is inside."""
    found = re.search(r'message: "(.*?)", source', str(failure))
    return found[1] if found else str(failure)


@cache
def _quiet_runtime() -> Runtime:
    """Of its own, as a history that does not replay is a finding and no line of a log."""
    return Runtime(telemetry=TelemetryConfig(logging=None))
