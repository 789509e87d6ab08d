"""Invocations that are open, or lack their closing events, although their lease owner is gone."""

import time
from functools import partial

from temporalio.client import WorkflowExecutionStatus

from durable_adk.activities.dependencies import Dependencies
from durable_adk.activities.invocation.close import close_invocation
from durable_adk.apps.registry import AppRegistry
from durable_adk.errors import InvocationTerminatedError, as_detail
from durable_adk.ops.doctor.findings import Case, Kind, case
from durable_adk.ops.doctor.lease_owners import OwningWorkflow
from durable_adk.ops.doctor.operation_log import OperationLog
from durable_adk.ops.doctor.sources import Sources
from durable_adk.sessions.lease_owner import LOCAL_PREFIX, LOCAL_TTL
from durable_adk.sessions.records import InvocationRecord, Status
from durable_adk.sessions.session import SessionKey
from durable_adk.sessions.session_log import SessionLog
from durable_adk.wire.steps import CloseStep

GONE = "no such workflow"


async def orphaned_invocation(
    sources: Sources,
    key: SessionKey,
    record: InvocationRecord,
    workflow: OwningWorkflow | None,
    log: OperationLog | None,
    *,
    store_known: bool,
) -> Case | None:
    """Return a finding if an invocation is open or lacks closing events, and its owner is gone.

    Args:
        sources: The store and its Temporal.
        key: The session.
        record: The invocation.
        workflow: The workflow that owns the invocation, if any.
        log: The operations of that workflow, if its history was read.
        store_known: Whether this Temporal has any invocation of the store. If it has none, it is
            probably the wrong Temporal, and a missing workflow proves nothing.
    """
    if record.sealed:
        return None
    state = await _owner_state(sources.sessions, key, record, workflow)
    # Read again: the invocation may have ended properly in the meantime.
    if state is None or await sources.sessions.get_invocation(key, record.invocation_id) != record:
        return None
    certain = store_known or state != GONE
    doubt = "" if certain else "; but this Temporal knows no invocation of this store at all"
    return case(
        Kind.DEAD_HOLDER,
        key,
        f"it is {_status(record)}, and its lease owner {record.lease_owner} is gone: "
        f"{state}{doubt}",
        invocation_id=record.invocation_id,
        fix="answer its open calls, record the reason in its log, and end it as abandoned"
        if certain
        else None,
        remedy=partial(_abandon, sources.sessions, key, record, log) if certain else None,
    )


async def _owner_state(
    store: SessionLog,
    key: SessionKey,
    record: InvocationRecord,
    workflow: OwningWorkflow | None,
) -> str | None:
    """Return why the lease owner cannot proceed; None if it is alive or its state is unknown."""
    if workflow is not None:
        return _workflow_state(workflow)
    if not record.lease_owner.startswith(LOCAL_PREFIX):
        return None
    if record.status is Status.RUNNING:
        active = await store.active_invocation(key)
        if active is None or active.invocation_id != record.invocation_id:
            return "its process has stopped renewing the lease"
    elif record.status.closed and time.time() > record.update_time + LOCAL_TTL:
        # Its process waits while another invocation is active, and needs a moment afterwards.
        active = await store.active_invocation(key)
        return "its process has not stored its closing events" if active is None else None
    return None


def _workflow_state(workflow: OwningWorkflow) -> str | None:
    if workflow.description is None:
        return GONE
    if workflow.running:
        return None
    status = workflow.description.status or WorkflowExecutionStatus.FAILED
    return f"its workflow is {status.name.lower()}"


def _status(record: InvocationRecord) -> str:
    missing = ", but not sealed" if record.status.closed else ""
    return f"{record.status.value}{missing}"


async def _abandon(
    store: SessionLog, key: SessionKey, record: InvocationRecord, log: OperationLog | None
) -> None:
    """End an invocation as the session's next message would (D7).

    Both derive the same event ids, so whichever comes second changes nothing.
    """
    error = InvocationTerminatedError(
        f"The process running invocation {record.invocation_id!r} ended before finishing it."
    )
    step = CloseStep(
        key=key,
        invocation_id=record.invocation_id,
        epoch=record.epoch,
        status=Status.ABANDONED,
        author=await _author(store, key, record, log),
        timestamp=time.time(),
        error=as_detail(error),
    )
    await close_invocation(Dependencies(registry=AppRegistry([]), sessions=store), step)


async def _author(
    store: SessionLog, key: SessionKey, record: InvocationRecord, log: OperationLog | None
) -> str:
    """Return the error event's author: the app's root agent, else the first agent that wrote."""
    if log is not None and log.opening is not None:
        return log.opening[1].manifest.name
    for item in await store.read_events(key, after=record.start_seq):
        if item.event.invocation_id == record.invocation_id and item.event.author != "user":
            return item.event.author
    return key.app_name
