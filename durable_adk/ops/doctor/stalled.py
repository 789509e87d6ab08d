"""Workflows whose code no worker gets through: they stand still, and nobody is told."""

from collections.abc import Iterable, Mapping
from contextlib import suppress

from temporalio.api.enums.v1 import EventType, WorkflowTaskFailedCause
from temporalio.api.history.v1 import WorkflowTaskFailedEventAttributes
from temporalio.client import WorkflowExecution, WorkflowExecutionStatus, WorkflowHistory
from temporalio.converter import DataConverter, WorkflowSerializationContext

from durable_adk.errors import DurableAdkError
from durable_adk.json_model import JsonModel
from durable_adk.ops.doctor.findings import Case, Kind, case
from durable_adk.ops.doctor.sources import Sources, if_known
from durable_adk.sessions.lease_owner import TemporalLeaseOwner
from durable_adk.sessions.records import InvocationRecord
from durable_adk.sessions.session import SessionKey

TRIES = 4
"""Attempts of a workflow task that are no accident any more; fewer are lost with dead workers."""
_SHOWN = 300  # characters of an error
_UNREAD = (DurableAdkError, KeyError, RuntimeError, TypeError, ValueError)
"""What converters raise at what they cannot read: a key is missing, it is of another's kind."""

Whose = tuple[SessionKey, str | None]
"""A session, and its invocation; empty names are unknown."""


class _Argument(JsonModel):
    """What the arguments of all runs of an invocation have in common."""

    app: str = ""
    user: str = ""
    session: str | None = None
    invocation_id: str | None = None


async def stalled(
    sources: Sources,
    runs: Iterable[WorkflowExecution],
    records: Mapping[SessionKey, Iterable[InvocationRecord]],
) -> list[Case]:
    """The open workflows whose task fails, or loses its worker, again and again (I11).

    Also those of an app that the store knows nothing of: its first message may stand still.

    Args:
        sources: Where to look.
        runs: Of all workflows.
        records: The invocations of all sessions.
    """
    known = _lease_owners(records)
    found: list[Case] = []
    for run in runs:
        whose = known.get(run.id)
        if run.status is not WorkflowExecutionStatus.RUNNING or not _mean(sources, whose):
            continue
        handle = sources.client.get_workflow_handle(run.id, run_id=run.run_id)
        description = await if_known(handle.describe())
        tries = description.raw_description.pending_workflow_task.attempt if description else 0
        if tries < TRIES or (history := await if_known(handle.fetch_history())) is None:
            continue
        context = WorkflowSerializationContext(sources.client.namespace, run.id)
        converter = sources.client.data_converter.with_context(context)
        key, invocation_id = whose = whose or await _asked(history, converter)
        if _mean(sources, whose):
            problem = (
                f"workflow {run.id} stands still: its task is at attempt {tries}, and the first "
                f"ended so: {await _reason(history, converter)}. It goes on by itself once a "
                "worker gets through; how later attempts ended is in the workers' logs"
            )
            found.append(case(Kind.STALLED, key, problem, invocation_id=invocation_id))
    return found


def _mean(sources: Sources, whose: Whose | None) -> bool:
    """Whether an invocation is one of those that are meant, as far as is known."""
    return whose is None or sources.mean(whose[0])


def _lease_owners(records: Mapping[SessionKey, Iterable[InvocationRecord]]) -> dict[str, Whose]:
    """By the ids of workflows."""
    found: dict[str, Whose] = {}
    for key, listed in records.items():
        for record in listed:
            if lease_owner := TemporalLeaseOwner.parse(record.lease_owner):
                found[lease_owner.workflow_id] = (key, record.invocation_id)
    return found


async def _asked(history: WorkflowHistory, converter: DataConverter) -> Whose:
    """Whose the workflow is to become, as its argument says."""
    started = history.events[0].workflow_execution_started_event_attributes
    with suppress(*_UNREAD):  # also at its fields, if its payload was refused
        (told,) = await converter.decode(started.input.payloads, [_Argument])
        session = told.session or told.invocation_id or ""
        return SessionKey(told.app, told.user, session), told.invocation_id
    return SessionKey("", "", ""), None


async def _reason(history: WorkflowHistory, converter: DataConverter) -> str:
    """How the first attempt of the workflow task ended; later ones are in no history."""
    for event in reversed(history.events):
        match event.event_type:
            case EventType.EVENT_TYPE_WORKFLOW_TASK_COMPLETED:
                break
            case EventType.EVENT_TYPE_WORKFLOW_TASK_TIMED_OUT:
                return "its worker did not answer in time"
            case EventType.EVENT_TYPE_WORKFLOW_TASK_FAILED:
                return await _failure(event.workflow_task_failed_event_attributes, converter)
            case _:
                pass
    return "Temporal does not say how"


async def _failure(failed: WorkflowTaskFailedEventAttributes, converter: DataConverter) -> str:
    """With its causes: what the SDK says first may be no more than that decoding failed."""
    try:
        error: BaseException | None = await converter.decode_failure(failed.failure)
    except _UNREAD as unread:
        return f"an error that cannot be read here: {unread}"
    texts: list[str] = []
    while error is not None:
        texts.append(getattr(error, "message", "") or str(error))
        error = error.__cause__
    said = ": ".join(text for text in dict.fromkeys(texts) if text)
    return said[:_SHOWN] or WorkflowTaskFailedCause.Name(failed.cause)
