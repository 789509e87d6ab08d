"""Stalled workflows and their last error: no worker completes their task, and no client sees it."""

from collections.abc import Iterable, Mapping
from contextlib import suppress

from temporalio.api.enums.v1 import EventType, WorkflowTaskFailedCause
from temporalio.api.history.v1 import WorkflowTaskFailedEventAttributes
from temporalio.client import WorkflowExecution, WorkflowExecutionStatus, WorkflowHistory
from temporalio.converter import DataConverter, WorkflowSerializationContext

from durable_adk.errors import DurableAdkError
from durable_adk.json_values import JsonModel
from durable_adk.ops.doctor.findings import Case, Kind, case
from durable_adk.ops.doctor.sources import Sources, if_exists
from durable_adk.sessions.lease_owner import TemporalLeaseOwner
from durable_adk.sessions.records import InvocationRecord
from durable_adk.sessions.session import SessionKey

MIN_ATTEMPTS = 4
"""Attempts of a workflow task after which it is stalled; dying workers can cause fewer."""
_MAX_SHOWN = 300  # maximum characters of an error
_UNREADABLE = (DurableAdkError, KeyError, RuntimeError, TypeError, ValueError)
"""Errors of converters: a missing key, or a payload of another kind."""

Invocation = tuple[SessionKey, str | None]
"""A session and its invocation's id; unknown ids are empty."""


class _Argument(JsonModel):
    """The fields that the arguments of all of an invocation's runs share."""

    app: str = ""
    user: str = ""
    session: str | None = None
    invocation_id: str | None = None


async def stalled_workflows(
    sources: Sources,
    runs: Iterable[WorkflowExecution],
    records: Mapping[SessionKey, Iterable[InvocationRecord]],
) -> list[Case]:
    """Return the open workflows whose task repeatedly fails or loses its worker (I11).

    This includes workflows of an app without stored sessions: its first message may be stalled.

    Args:
        sources: The store and its Temporal.
        runs: The runs of all workflows.
        records: The invocations of all sessions.
    """
    by_workflow = _by_workflow(records)
    cases: list[Case] = []
    for run in runs:
        invocation = by_workflow.get(run.id)
        if run.status is not WorkflowExecutionStatus.RUNNING or not _covers(sources, invocation):
            continue
        handle = sources.client.get_workflow_handle(run.id, run_id=run.run_id)
        description = await if_exists(handle.describe())
        attempt = description.raw_description.pending_workflow_task.attempt if description else 0
        if attempt < MIN_ATTEMPTS or (history := await if_exists(handle.fetch_history())) is None:
            continue
        context = WorkflowSerializationContext(sources.client.namespace, run.id)
        converter = sources.client.data_converter.with_context(context)
        invocation = invocation or await _from_argument(history, converter)
        if _covers(sources, invocation):
            key, invocation_id = invocation
            problem = (
                f"workflow {run.id} is stalled: its task is at attempt {attempt}, and the first "
                f"attempt failed: {await _reason(history, converter)}. It continues as soon as a "
                "worker completes the task. The workers' logs have the errors of later attempts"
            )
            cases.append(case(Kind.STALLED, key, problem, invocation_id=invocation_id))
    return cases


def _covers(sources: Sources, invocation: Invocation | None) -> bool:
    """Return whether to examine an invocation; an unknown one is examined."""
    return invocation is None or sources.covers(invocation[0])


def _by_workflow(
    records: Mapping[SessionKey, Iterable[InvocationRecord]],
) -> dict[str, Invocation]:
    """Return the invocations by the ids of their workflows."""
    found: dict[str, Invocation] = {}
    for key, listed in records.items():
        for record in listed:
            if owner := TemporalLeaseOwner.parse(record.lease_owner):
                found[owner.workflow_id] = (key, record.invocation_id)
    return found


async def _from_argument(history: WorkflowHistory, converter: DataConverter) -> Invocation:
    """Return the invocation that a workflow should run, according to its argument."""
    started = history.events[0].workflow_execution_started_event_attributes
    with suppress(*_UNREADABLE):  # reading the fields also fails if the payload was refused
        (argument,) = await converter.decode(started.input.payloads, [_Argument])
        session = argument.session or argument.invocation_id or ""
        return SessionKey(argument.app, argument.user, session), argument.invocation_id
    return SessionKey("", "", ""), None


async def _reason(history: WorkflowHistory, converter: DataConverter) -> str:
    """Return how the first attempt of the workflow task ended; histories lack later attempts."""
    for event in reversed(history.events):
        match event.event_type:
            case EventType.EVENT_TYPE_WORKFLOW_TASK_COMPLETED:
                break
            case EventType.EVENT_TYPE_WORKFLOW_TASK_TIMED_OUT:
                return "its worker did not respond in time"
            case EventType.EVENT_TYPE_WORKFLOW_TASK_FAILED:
                return await _failure(event.workflow_task_failed_event_attributes, converter)
            case _:
                pass
    return "Temporal does not give the reason"


async def _failure(failed: WorkflowTaskFailedEventAttributes, converter: DataConverter) -> str:
    """Return the error with its causes: the SDK's own message may only say that decoding failed."""
    try:
        error: BaseException | None = await converter.decode_failure(failed.failure)
    except _UNREADABLE as unreadable:
        return f"an error that cannot be decoded here: {unreadable}"
    texts: list[str] = []
    while error is not None:
        texts.append(getattr(error, "message", "") or str(error))
        error = error.__cause__
    text = ": ".join(text for text in dict.fromkeys(texts) if text)
    return text[:_MAX_SHOWN] or WorkflowTaskFailedCause.Name(failed.cause)
