"""Records of invocations, read from Temporal, that a session store must contain (I21)."""

import json
from collections.abc import AsyncGenerator, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from temporalio.api.history.v1 import HistoryEvent
from temporalio.client import Client, WorkflowExecution, WorkflowExecutionStatus
from temporalio.converter import DataConverter, WorkflowSerializationContext
from temporalio.service import RPCError, RPCStatusCode

from durable_adk.errors import DurableAdkError
from durable_adk.log import get_logger
from durable_adk.sessions.records import InvocationRecord
from durable_adk.sessions.session import SessionKey
from durable_adk.wire.checkpoint import Checkpoint, Cursor, unpacked
from durable_adk.wire.messages import InvocationRequest, InvocationResult
from durable_adk.wire.steps import UNKNOWN_EPOCH

STEPS = frozenset({"call_model", "call_tool", "execute_code", "run_callback", "run_node"})
"""Activities that may store their own event; see `StepResult.seq`."""
_TELLING = STEPS | {
    "run_steps",
    "run_items",
    "open_invocation",
    "commit_event",
    "take_answer",
    "close_invocation",
    "read_checkpoint",
}
"""Activities whose results show what was stored."""

logger = get_logger(__name__)


@dataclass(frozen=True, kw_only=True)
class WorkflowRecord:
    """An invocation that was stored, according to Temporal."""

    key: SessionKey
    invocation_id: str
    first_run_id: str
    """Run id of its workflow's first run; a later run's if the workflow continued as new."""
    started: float
    """Earliest possible start of the workflow run, in seconds since the epoch."""
    revision: int = 0
    """A number of events that the session has had."""
    closed: bool = False
    """Whether the invocation was closed in the store."""
    epoch: int | None = None
    """An epoch under which it held the session's lease; None: unknown."""
    delivered_event: str | None = None
    """Id of the event of a message that was delivered to this invocation."""
    caller: SessionKey | None = None
    """The calling session, if an agent ran as a tool."""


async def read_record(client: Client, execution: WorkflowExecution) -> WorkflowRecord | None:
    """Return the record of a workflow run; None if it stored nothing, or cannot be read.

    Raises:
        RPCError: Temporal does not respond.
    """
    handle = client.get_workflow_handle(execution.id, run_id=execution.run_id)
    started, run_id = execution.start_time.timestamp(), execution.run_id
    try:
        if execution.status is WorkflowExecutionStatus.COMPLETED:
            result = InvocationResult.read(await handle.result())
            key = SessionKey(result.app, result.user, result.session)
            if result.steered is not None:
                return WorkflowRecord(
                    key=key,
                    invocation_id=result.steered,
                    first_run_id=run_id,
                    started=started,
                    delivered_event=f"{result.invocation_id}.0",
                )
            if not key.is_child:  # only the history has its caller
                return WorkflowRecord(
                    key=key,
                    invocation_id=result.invocation_id,
                    first_run_id=run_id,
                    started=started,
                    closed=True,
                    epoch=result.epoch or None,
                )
        history = await handle.fetch_history()
        context = WorkflowSerializationContext(client.namespace, execution.id)
        converter = client.data_converter.with_context(context)
        return await _of_history(history.events, converter, started)
    except RPCError as error:
        if error.status is not RPCStatusCode.NOT_FOUND:
            raise
    except Exception as error:  # noqa: BLE001 - a lost payload, a missing key, a foreign value
        logger.debug("staleness.unreadable", error_type=type(error).__name__)
    return None


async def _of_history(
    events: Iterable[HistoryEvent], converter: DataConverter, started: float
) -> WorkflowRecord | None:
    first, *later = events
    start = first.workflow_execution_started_event_attributes
    (raw,) = await converter.decode(start.input.payloads)
    name: str | None = None
    revision, epoch, closed = 0, None, False
    async for activity, value in _results(later, converter):
        closed = closed or any(step.get("closed") for step in _steps(activity, value))
        for fact in _facts(activity, value):
            if isinstance(fact, InvocationRecord):
                name, epoch = fact.invocation_id, fact.epoch
                closed = closed or fact.status.closed
                revision = max(revision, fact.start_seq, fact.end_seq or 0)
            else:
                revision = max(revision, fact)
    if name is None:
        return None
    argument = Cursor.parse(raw) if Cursor.is_one(raw) else InvocationRequest.parse(raw)
    run = argument.tool_run if isinstance(argument, InvocationRequest) else None
    return WorkflowRecord(
        key=SessionKey(argument.app, argument.user, argument.session or name),
        invocation_id=name,
        first_run_id=start.first_execution_run_id,
        started=started,
        revision=revision,
        closed=closed,
        epoch=epoch,
        caller=run and run.caller,
    )


def _facts(activity: str, value: Any) -> Iterator[InvocationRecord | int]:
    """Yield the invocation records and the event numbers in an activity's result."""
    match activity, value:
        case "commit_event", int() | float():
            yield int(value)
        case "open_invocation" | "close_invocation", {"record": record} if record:
            read = InvocationRecord.read(record)
            if read.epoch != UNKNOWN_EPOCH:
                yield read
        case "read_checkpoint", {"checkpoint": str(packed)} if packed:
            checkpoint = Checkpoint.from_json(unpacked(packed))
            yield checkpoint.record
            yield checkpoint.revision
        case "take_answer", {"seq": int(seq)}:
            yield seq
        case _:
            for step in _steps(activity, value):
                called: dict[str, Any] = step.get("dynamic") or {}
                yield from (int(seq) for seq in (step.get("seq"), called.get("revision")) if seq)


def _steps(activity: str, value: Any) -> Iterator[dict[str, Any]]:
    """Yield the results of the steps that an activity has performed; see `StepResult`."""
    match activity, value:
        case "run_steps", {"outcomes": [*outcomes]}:
            yield from (one.get("result") or one for one in outcomes)
        case "run_items", {**items}:
            yield from ({"seq": seq} for seq in items.get("stored", {}).values())
            yield from items.get("results", {}).values()
        case name, {**result} if name in STEPS:
            yield result
        case _:
            pass


async def _results(
    events: Iterable[HistoryEvent], converter: DataConverter
) -> AsyncGenerator[tuple[str, Any]]:
    """Yield name and result of each completed activity; the result is plain JSON."""
    names = dict[int, str]()
    for event in events:
        marker = event.marker_recorded_event_attributes.details
        scheduled = event.activity_task_scheduled_event_attributes
        completed = event.activity_task_completed_event_attributes
        with suppress(DurableAdkError, LookupError, TypeError, ValueError):  # a lost payload
            # Checked first: a look-up would add the key, and turn any event into a marker.
            if "data" in marker and "result" in marker:
                about = json.loads(marker["data"].payloads[0].data)
                (value,) = await converter.decode_wrapper(marker["result"])
                yield about["activity_type"], value
            elif scheduled.activity_id:
                names[event.event_id] = scheduled.activity_type.name
            elif (name := names.get(completed.scheduled_event_id)) in _TELLING:
                (value,) = await converter.decode(completed.result.payloads)
                yield name, value
