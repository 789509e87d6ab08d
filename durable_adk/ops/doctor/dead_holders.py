"""Invocations that are said to go on, or lack events that end them, while what ran them is gone."""

import time
from collections.abc import Mapping
from functools import partial

from temporalio.client import Client, WorkflowExecutionStatus
from temporalio.service import RPCError, RPCStatusCode

from durable_adk.activities.dependencies import Dependencies
from durable_adk.activities.invocation.close import close_invocation
from durable_adk.apps.registry import AppRegistry
from durable_adk.errors import InvocationTerminatedError, TemporalUnavailableError, as_detail
from durable_adk.ops.doctor.findings import Case, Kind, case
from durable_adk.ops.doctor.sources import Sources
from durable_adk.ops.doctor.trails import Trail
from durable_adk.sessions.lease_owner import LOCAL_PREFIX, LOCAL_TTL, TemporalLeaseOwner
from durable_adk.sessions.records import InvocationRecord, Status
from durable_adk.sessions.session import SessionKey
from durable_adk.sessions.session_log import SessionLog
from durable_adk.wire.steps import CloseStep

GONE = "no such workflow"


async def dead_holders(
    sources: Sources,
    key: SessionKey,
    records: list[InvocationRecord],
    trails: Mapping[str, Trail],
    *,
    at_home: bool,
) -> list[Case]:
    """The invocations of a session that are open, or not sealed, with a closed or missing owner.

    Args:
        sources: Where to look.
        key: The session.
        records: Its invocations.
        trails: By the first run's id.
        at_home: Whether this Temporal knows some of the store's invocations. If it knows none, it
            is the wrong one, and that it does not know a lease owner means nothing.
    """
    found: list[Case] = []
    for record in records:
        if record.sealed:
            continue
        state = await _state(sources, key, record)
        # Looked up again: it may have ended properly in between.
        if state is None or await sources.sessions.get_invocation(key, record.invocation_id) != (
            record
        ):
            continue
        sure = at_home or state != GONE
        lease_owner = TemporalLeaseOwner.parse(record.lease_owner)
        trail = trails.get(lease_owner.first_run_id) if lease_owner else None
        found.append(
            case(
                Kind.DEAD_HOLDER,
                key,
                f"it is {_status(record)}, and its owner {record.lease_owner} is gone: {state}"
                + ("" if sure else "; but this Temporal knows no invocation of this store at all"),
                invocation_id=record.invocation_id,
                fix="answer its open calls, say why in its log, and end it as abandoned"
                if sure
                else None,
                remedy=partial(_abandon, sources.sessions, key, record, trail) if sure else None,
            )
        )
    return found


async def _state(sources: Sources, key: SessionKey, record: InvocationRecord) -> str | None:
    """What became of the lease owner; None: it is alive, or nobody can say."""
    lease_owner = TemporalLeaseOwner.parse(record.lease_owner)
    if lease_owner is not None:
        here = lease_owner.namespace == sources.client.namespace
        return await _workflow_state(sources.client, lease_owner) if here else None
    if not record.lease_owner.startswith(LOCAL_PREFIX):
        return None
    if record.status is Status.RUNNING:
        active = await sources.sessions.active_invocation(key)
        if active is None or active.invocation_id != record.invocation_id:
            return "its process has stopped renewing the lease"
    elif record.status.closed and time.time() > record.update_time + LOCAL_TTL:
        # It waits while another one is active, and needs a moment afterwards.
        active = await sources.sessions.active_invocation(key)
        return "its process has not stored its last events" if active is None else None
    return None


def _status(record: InvocationRecord) -> str:
    lacks = ", but not sealed" if record.status.closed else ""
    return f"{record.status.value}{lacks}"


async def _workflow_state(client: Client, lease_owner: TemporalLeaseOwner) -> str | None:
    handle = client.get_workflow_handle(lease_owner.workflow_id)
    try:
        description = await handle.describe()
    except RPCError as error:
        if error.status is RPCStatusCode.NOT_FOUND:
            return GONE
        raise TemporalUnavailableError(f"Temporal did not answer: {error.message}") from error
    if description.raw_info.first_run_id != lease_owner.first_run_id:
        return GONE
    if description.status is WorkflowExecutionStatus.RUNNING:
        return None
    return f"its workflow is {(description.status or WorkflowExecutionStatus.FAILED).name.lower()}"


async def _abandon(
    store: SessionLog, key: SessionKey, record: InvocationRecord, trail: Trail | None
) -> None:
    """End an invocation as the session's next message would have (D7).

    The same ids are made of it, so whoever is second changes nothing.
    """
    error = InvocationTerminatedError(
        f"Whatever ran invocation {record.invocation_id!r} has ended without it."
    )
    step = CloseStep(
        key=key,
        invocation_id=record.invocation_id,
        epoch=record.epoch,
        status=Status.ABANDONED,
        author=await _author(store, key, record, trail),
        timestamp=time.time(),
        error=as_detail(error),
    )
    await close_invocation(Dependencies(registry=AppRegistry([]), sessions=store), step)


async def _author(
    store: SessionLog, key: SessionKey, record: InvocationRecord, trail: Trail | None
) -> str:
    """Whose the error event is: the app's first agent's, or else that of who spoke first."""
    if trail is not None and trail.opening is not None:
        return trail.opening[1].manifest.name
    for item in await store.read_events(key, after=record.start_seq):
        if item.event.invocation_id == record.invocation_id and item.event.author != "user":
            return item.event.author
    return key.app_name
