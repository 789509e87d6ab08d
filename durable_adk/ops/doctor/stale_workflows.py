"""Open workflows whose state is older than the store's.

This happens when Temporal is restored from a backup that is older than the store (F38). Repeating
steps changes nothing, because the ids are the same. But an answer arrived as a signal, which will
not be sent again.
"""

from collections.abc import Sequence
from functools import partial

from temporalio.client import Client
from temporalio.service import RPCError

from durable_adk.errors import InvocationTerminatedError
from durable_adk.events.event import Event
from durable_adk.ops.doctor.findings import Case, Kind, case
from durable_adk.ops.doctor.lease_owners import OwningWorkflow, end_workflow
from durable_adk.ops.doctor.operation_log import OperationLog
from durable_adk.ops.doctor.sources import Sources
from durable_adk.sessions.lease_owner import TemporalLeaseOwner
from durable_adk.sessions.records import InvocationRecord, StoredEvent
from durable_adk.sessions.session import SessionKey
from durable_adk.wire.messages import InvocationAnswer, answer_event
from durable_adk.wire.steps import AnswerStep


async def stale_workflow(
    sources: Sources,
    key: SessionKey,
    record: InvocationRecord,
    workflow: OwningWorkflow | None,
    log: OperationLog | None,
) -> Case | None:
    """Return a finding if a workflow waits for an answer or end that the store already has.

    A workflow that has work to do detects this on its own: its next step reads the store.

    Args:
        sources: The store and its Temporal.
        key: The session.
        record: The invocation.
        workflow: The workflow that owns the invocation, if any.
        log: The operations of that workflow, if its history was read.
    """
    if workflow is None or not workflow.idle:
        return None
    if record.status.closed:
        return _closed_invocation(sources, key, record, workflow.owner)
    answers = await undelivered_answers(sources, key, record, log)
    return _undelivered(sources, key, record, workflow.owner, answers) if answers else None


async def undelivered_answers(
    sources: Sources, key: SessionKey, record: InvocationRecord, log: OperationLog | None
) -> list[StoredEvent]:
    """Return the users' answers that are stored, but not in the workflow's history.

    A message to a task agent is one, too.
    """
    # Temporal may have deleted the earlier runs of a workflow that has continued as new.
    if log is None or log.failure is not None or log.opening is None:
        return []
    delivered = {op.step.event_id for op in log.operations if isinstance(op.step, AnswerStep)}
    stored = await sources.sessions.read_events(key, after=record.start_seq)
    return [
        item
        for item in stored
        if item.event.author == "user"
        and item.event.invocation_id == record.invocation_id
        and (_is_answer(item.event) or item.event.isolation_scope is not None)
        and item.event.id not in delivered
    ]


def _is_answer(event: Event) -> bool:
    return event.id.startswith(answer_event(event.invocation_id))


def _closed_invocation(
    sources: Sources, key: SessionKey, record: InvocationRecord, owner: TemporalLeaseOwner
) -> Case:
    return case(
        Kind.BEHIND,
        key,
        f"it is {record.status.value}, and its workflow {owner.workflow_id} still waits",
        invocation_id=record.invocation_id,
        fix="cancel the workflow; terminate it if that does not end it",
        remedy=partial(end_workflow, sources.client, owner.workflow_id, owner.first_run_id),
    )


def _undelivered(
    sources: Sources,
    key: SessionKey,
    record: InvocationRecord,
    owner: TemporalLeaseOwner,
    answers: Sequence[StoredEvent],
) -> Case:
    names = ", ".join(f"event {item.seq}" for item in answers)
    return case(
        Kind.BEHIND,
        key,
        f"its workflow {owner.workflow_id} waits for an answer that its session has: {names}",
        invocation_id=record.invocation_id,
        fix="send the stored answer to the workflow again",
        remedy=partial(_send, sources.client, owner, answers),
    )


async def _send(
    client: Client,
    owner: TemporalLeaseOwner,
    answers: Sequence[StoredEvent],
) -> None:
    """Resend the answers with their original ids: the store already has them, and adds nothing.

    Raises:
        InvocationTerminatedError: The workflow has ended in the meantime.
    """
    handle = client.get_workflow_handle(
        owner.workflow_id, first_execution_run_id=owner.first_run_id
    )
    for item in answers:
        try:
            await handle.signal("answer", _signal(item.event).to_value())
        except RPCError as error:
            raise InvocationTerminatedError(
                f"Workflow {owner.workflow_id} did not accept the answer: {error.message}"
            ) from error


def _signal(event: Event) -> InvocationAnswer:
    """Return the signal that led to a stored answer."""
    if not _is_answer(event):
        message_of = event.id.removesuffix(".0")
        return InvocationAnswer(steers=message_of, answer_id=message_of)
    return InvocationAnswer(
        message=event.content,
        state_delta=event.actions.state_delta,
        answer_id=event.id.removeprefix(answer_event(event.invocation_id)),
    )
