"""The store operations of an invocation's workflow, read from its histories.

A history holds the results of commits but not the committed values: the input of a local activity
is never recorded (D4). The code that produced it is deterministic, so replaying it over the history
produces the same bytes again. An interceptor records which activities the loop schedules and which
results the history has for them. No activity runs, because a replay only looks results up.
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
    ExecuteWorkflowInput,
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
from durable_adk.ops.doctor.started_tool_calls import started_calls
from durable_adk.sessions.session import SessionKey
from durable_adk.wire.checkpoint import StepOutcome
from durable_adk.wire.converter import with_our_payloads
from durable_adk.wire.steps import NodeStep, Opened, OpenStep, ToolStep
from durable_adk.workflows.invocation import TYPE_NAME, InvocationWorkflow
from durable_adk.workflows.runner import workflow_runner
from durable_adk.workflows.step_batch import OBSERVER


@dataclass(eq=False)
class Operation:
    """One activity, as the loop scheduled it."""

    name: str
    step: Any
    """A value of `durable_adk.wire.steps`."""
    at: float
    """Workflow time of the scheduling, in seconds since the epoch."""
    result: Any = None
    done: bool = False
    """Whether the history has a successful result."""


@dataclass(kw_only=True)
class OperationLog:
    """The operations of all runs of one workflow, in the order in which they were scheduled."""

    workflow_id: str
    first_run_id: str
    is_open: bool
    operations: list[Operation] = field(default_factory=list[Operation])
    failure: str | None = None
    """Why its history cannot be replayed."""
    started_calls: list[ToolStep | NodeStep] = field(default_factory=list[ToolStep | NodeStep])
    """The pending tool calls that may have started; empty if the workflow is not open."""
    last_recorded: int = 0
    """Sequence number of the last event whose commit is recorded in the history itself."""

    def append_run(self, later: "OperationLog") -> None:
        """Append the run with which this one continued as new."""
        self.is_open = self.is_open or later.is_open
        self.operations += later.operations
        self.started_calls = later.started_calls
        self.failure = self.failure or later.failure
        self.last_recorded = max(self.last_recorded, later.last_recorded)

    @property
    def opening(self) -> tuple[OpenStep, Opened] | None:
        """The step that opened the invocation, and its result; None if none did."""
        for operation in self.operations:
            result = operation.result
            if operation.done and isinstance(result, Opened) and result.record is not None:
                return operation.step, result
        return None

    @property
    def key(self) -> SessionKey | None:
        """The session; None if the invocation was not opened."""
        return self.opening[0].key if self.opening else None


class _OperationRecorder(WorkflowOutboundInterceptor):
    operations: list[Operation]

    def start_activity(self, input: StartActivityInput) -> workflow.ActivityHandle[Any]:  # noqa: A002  # the SDK's name
        return self._record(input, super().start_activity(input))

    def start_local_activity(
        self,
        input: StartLocalActivityInput,  # noqa: A002  # the SDK's name
    ) -> workflow.ActivityHandle[Any]:
        return self._record(input, super().start_local_activity(input))

    def _record(
        self,
        scheduled: StartActivityInput | StartLocalActivityInput,
        handle: workflow.ActivityHandle[Any],
    ) -> workflow.ActivityHandle[Any]:
        # A copy: the loop continues to change the objects, as `Invocation.commit` does.
        step = scheduled.args[0].model_copy(deep=True)
        operation = Operation(name=scheduled.activity, step=step, at=workflow.time())
        self.operations.append(operation)

        def end(done: workflow.ActivityHandle[Any]) -> None:
            if not done.cancelled() and done.exception() is None:
                operation.done, operation.result = True, deepcopy(done.result())

        handle.add_done_callback(end)
        return handle


def _of_batch(step: Any, outcome: StepOutcome) -> Operation:
    """Return the operation of a step that a batch has performed."""
    done = outcome.error is None and not outcome.cancelled
    result = outcome.seq if outcome.result is None else outcome.result.model_copy(deep=True)
    return Operation(
        name=outcome.name,
        step=step.model_copy(deep=True),
        at=outcome.at,
        result=result if done else None,
        done=done,
    )


class _ReplayInterceptor(Interceptor):
    """Records the operations of one replay."""

    def __init__(self) -> None:
        self.operations: list[Operation] = []

    def workflow_interceptor_class(
        self,
        input: WorkflowInterceptorClassInput,  # noqa: A002  # the SDK's name
    ) -> type[WorkflowInboundInterceptor]:
        """See the base class."""
        del input
        operations = self.operations
        recorder = type("_Recorder", (_OperationRecorder,), {"operations": operations})

        class Inbound(WorkflowInboundInterceptor):
            def init(self, outbound: WorkflowOutboundInterceptor) -> None:
                super().init(recorder(outbound))

            async def execute_workflow(self, input: ExecuteWorkflowInput) -> Any:  # noqa: A002  # the SDK's name
                OBSERVER.set(lambda step, outcome: operations.append(_of_batch(step, outcome)))
                return await super().execute_workflow(input)

        return Inbound


_ALL = f"WorkflowType = '{TYPE_NAME}'"


async def workflow_ids(client: Client) -> tuple[set[str], set[str]]:
    """Return the ids of all workflows in Temporal, and of the open ones among them."""
    ids: set[str] = set()
    open_ids: set[str] = set()
    async for run in client.list_workflows(_ALL):
        ids.add(run.id)
        if run.status is WorkflowExecutionStatus.RUNNING:
            open_ids.add(run.id)
    return ids, open_ids


async def workflow_runs(client: Client, *, but: Collection[str]) -> list[WorkflowExecution]:
    """Return the runs of workflows, oldest first, without closed runs of the workflows `but`."""
    runs = [
        run
        async for run in client.list_workflows(_ALL)
        if run.status is WorkflowExecutionStatus.RUNNING or run.id not in but
    ]
    return sorted(runs, key=lambda run: run.start_time)


async def operation_logs(
    client: Client, runs: Iterable[WorkflowExecution], *, apps: Iterable[App] = ()
) -> list[OperationLog]:
    """Return the operation logs of workflows.

    Args:
        client: A client of the Temporal that has the histories.
        runs: The runs of the workflows, oldest first.
        apps: Apps whose code is available; only custom agents need it.
    """
    found: dict[str, OperationLog] = {}
    for run in runs:
        with suppress(RPCError):  # its retention has ended in the meantime
            log = await _operation_log(client, run, apps)
            first = found.setdefault(log.first_run_id, log)
            if first is not log:
                first.append_run(log)
    return list(found.values())


async def _operation_log(
    client: Client, execution: WorkflowExecution, apps: Iterable[App]
) -> OperationLog:
    handle = client.get_workflow_handle(execution.id, run_id=execution.run_id)
    history = await handle.fetch_history()
    context = WorkflowSerializationContext(client.namespace, execution.id)
    converter = client.data_converter.with_context(context)
    started = history.events[0].workflow_execution_started_event_attributes
    log = OperationLog(
        workflow_id=execution.id,
        first_run_id=started.first_execution_run_id,
        is_open=execution.status is WorkflowExecutionStatus.RUNNING,
        last_recorded=max([await _committed(event, converter) for event in history.events]),
    )
    if apps:
        serve(execution.task_queue, AppRegistry(apps))
    log.operations, log.failure = await _replay(client, history)
    if log.is_open and log.failure is None:
        try:
            log.started_calls = await started_calls(client, execution, history, converter)
        except DurableAdkError as error:  # a step's payload is lost, or its key is missing
            log.failure = error.message
    return log


async def _committed(event: HistoryEvent, converter: DataConverter) -> int:
    """Return the sequence number in a commit's marker; 0 for other or unreadable events."""
    details = event.marker_recorded_event_attributes.details
    # Check first: indexing would insert the key, and turn any event into a marker.
    if "data" not in details or "result" not in details:
        return 0
    with suppress(KeyError, IndexError, TypeError, ValueError, DurableAdkError):
        data = json.loads(details["data"].payloads[0].data)
        if data["activity_type"] == "commit_event":
            (seq,) = await converter.decode_wrapper(details["result"])
            return int(seq)
    return 0


def has_workflow_task(history: WorkflowHistory) -> bool:
    """Return whether a history has a workflow task; without one, the SDK silently skips its replay.

    A workflow with a delayed start has none, nor has a run that was just continued as new.
    """
    scheduled = EventType.EVENT_TYPE_WORKFLOW_TASK_SCHEDULED
    return any(event.event_type == scheduled for event in history.events)


async def _replay(client: Client, history: WorkflowHistory) -> tuple[list[Operation], str | None]:
    if not has_workflow_task(history):
        return [], None
    interceptor = _ReplayInterceptor()
    replayer = Replayer(
        workflows=[InvocationWorkflow],
        # The lease owner contains the namespace.
        namespace=client.namespace,
        data_converter=with_our_payloads(client.data_converter),
        # The recorded operations must be accessible outside the sandbox.
        workflow_runner=workflow_runner(sandboxed=False),
        interceptors=[interceptor],
        runtime=_quiet_runtime(),
    )
    result = await replayer.replay_workflow(history, raise_on_replay_failure=False)
    failure = result.replay_failure
    return interceptor.operations, None if failure is None else _reason(failure)


def _reason(failure: Exception) -> str:
    """Return the failure's message, taken from the SDK's textual dump of the failure."""
    found = re.search(r'message: "(.*?)", source', str(failure))
    return found[1] if found else str(failure)


@cache
def _quiet_runtime() -> Runtime:
    """Return a runtime without logging: a failed replay is a finding, not a log line."""
    return Runtime(telemetry=TelemetryConfig(logging=None))
