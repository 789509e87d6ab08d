"""Open workflows that know less of their invocations than the store does.

So it is when Temporal was restored from a backup that is older than the store (F38). What such a
workflow does again changes nothing, as the ids are the same. But an answer came in a signal, which
it will never hear again.
"""

from collections.abc import Collection, Mapping, Sequence
from functools import partial

from temporalio.client import Client, WorkflowExecutionStatus
from temporalio.service import RPCError

from durable_adk.client.invocations import only_waits
from durable_adk.errors import InvocationTerminatedError
from durable_adk.ops.doctor.findings import Case, Kind, case
from durable_adk.ops.doctor.regressions import end_workflow
from durable_adk.ops.doctor.sources import Sources, if_known
from durable_adk.ops.doctor.trails import Trail
from durable_adk.sessions.lease_owner import TemporalLeaseOwner
from durable_adk.sessions.records import InvocationRecord, StoredEvent
from durable_adk.sessions.session import SessionKey
from durable_adk.wire.messages import InvocationAnswer, answer_event
from durable_adk.wire.steps import AnswerStep


async def behind(
    sources: Sources,
    key: SessionKey,
    records: Sequence[InvocationRecord],
    trails: Mapping[str, Trail],
    *,
    going: Collection[str],
) -> list[Case]:
    """The invocations of a session whose workflows wait for what the store says has been.

    One that has something to do finds that out by itself: its next step asks the store.

    Args:
        sources: Where to look.
        key: The session.
        records: Its invocations.
        trails: By the first run's id.
        going: Ids of the open workflows.
    """
    found: list[Case] = []
    for record in records:
        lease_owner = TemporalLeaseOwner.parse(record.lease_owner)
        if lease_owner is None or lease_owner.workflow_id not in going:
            continue
        if not await _is_idle(sources.client, lease_owner):
            continue
        if record.status.closed:
            found.append(_over(sources, key, record, lease_owner))
        elif lost := await unheard(sources, key, record, trails.get(lease_owner.first_run_id)):
            found.append(_unanswered(sources, key, record, lease_owner, lost))
    return found


async def _is_idle(client: Client, lease_owner: TemporalLeaseOwner) -> bool:
    description = await if_known(client.get_workflow_handle(lease_owner.workflow_id).describe())
    if description is None or description.status is not WorkflowExecutionStatus.RUNNING:
        return False
    # The server looks the workflow up by its id, which a later one may have taken.
    is_it = description.raw_info.first_run_id == lease_owner.first_run_id
    return is_it and only_waits(description)


async def unheard(
    sources: Sources, key: SessionKey, record: InvocationRecord, trail: Trail | None
) -> list[StoredEvent]:
    """The users' answers that are stored, and of which the workflow's history says nothing."""
    # Of a run that has continued as new Temporal may have forgotten what came before, for good.
    if trail is None or trail.failure is not None or trail.opening is None:
        return []
    heard = {act.step.event_id for act in trail.acts if isinstance(act.step, AnswerStep)}
    stored = await sources.sessions.read_events(key, after=record.start_seq)
    return [
        item
        for item in stored
        if item.event.author == "user"
        and item.event.id.startswith(answer_event(record.invocation_id))
        and item.event.id not in heard
    ]


def _over(
    sources: Sources, key: SessionKey, record: InvocationRecord, lease_owner: TemporalLeaseOwner
) -> Case:
    return case(
        Kind.BEHIND,
        key,
        f"it is {record.status.value}, and its workflow {lease_owner.workflow_id} still waits",
        invocation_id=record.invocation_id,
        fix="cancel the workflow; terminate it if that does not end it",
        remedy=partial(
            end_workflow, sources.client, lease_owner.workflow_id, lease_owner.first_run_id
        ),
    )


def _unanswered(
    sources: Sources,
    key: SessionKey,
    record: InvocationRecord,
    lease_owner: TemporalLeaseOwner,
    lost: Sequence[StoredEvent],
) -> Case:
    answers = ", ".join(f"event {item.seq}" for item in lost)
    return case(
        Kind.BEHIND,
        key,
        f"its workflow {lease_owner.workflow_id} waits for answers that its session has: {answers}",
        invocation_id=record.invocation_id,
        fix="send the workflow the stored answer again",
        remedy=partial(_send, sources.client, record, lease_owner, lost),
    )


async def _send(
    client: Client,
    record: InvocationRecord,
    lease_owner: TemporalLeaseOwner,
    lost: Sequence[StoredEvent],
) -> None:
    """Send the answers again, under the names they had: the store has them, so nothing is stored.

    Raises:
        InvocationTerminatedError: The workflow has ended meanwhile.
    """
    handle = client.get_workflow_handle(
        lease_owner.workflow_id, first_execution_run_id=lease_owner.first_run_id
    )
    for item in lost:
        answer = InvocationAnswer(
            message=item.event.content,
            state_delta=item.event.actions.state_delta,
            answer_id=item.event.id.removeprefix(answer_event(record.invocation_id)),
        )
        payload = answer.model_dump(mode="json", by_alias=True, exclude_none=True)
        try:
            await handle.signal("answer", payload)
        except RPCError as error:
            raise InvocationTerminatedError(
                f"Workflow {lease_owner.workflow_id} did not take the answer: {error.message}"
            ) from error
