"""The examination of a session store and the Temporal that runs its invocations."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from durable_adk.errors import SessionNotFoundError
from durable_adk.ops.doctor.broken_logs import broken_logs
from durable_adk.ops.doctor.findings import Case, Kind
from durable_adk.ops.doctor.inferred_operations import infer_operations
from durable_adk.ops.doctor.lease_owners import owning_workflow
from durable_adk.ops.doctor.open_calls import open_calls
from durable_adk.ops.doctor.operation_log import (
    OperationLog,
    operation_logs,
    workflow_ids,
    workflow_runs,
)
from durable_adk.ops.doctor.orphaned_invocations import orphaned_invocation
from durable_adk.ops.doctor.regressions import compare, orphans, regressions, unexamined
from durable_adk.ops.doctor.sources import Missing, Sources
from durable_adk.ops.doctor.stale_workflows import stale_workflow
from durable_adk.ops.doctor.stalled_workflows import stalled_workflows
from durable_adk.sessions.lease_owner import TemporalLeaseOwner
from durable_adk.sessions.records import InvocationRecord
from durable_adk.sessions.session import SessionKey

Records = dict[SessionKey, list[InvocationRecord]]


async def diagnose(sources: Sources) -> list[Case]:
    """Return all inconsistencies without changing anything.

    A session that lacks events is not examined further: the missing events may explain all its
    other symptoms. Histories are read before sessions, so a commit in between is in the store and
    not in the history, which is consistent.

    Memory holds the ids of all workflows in Temporal, the data of open invocations, and one page of
    the rest.
    """
    ids, open_ids = await workflow_ids(sources.client)
    stored = await _stored_invocations(sources, ids, open_ids)
    runs = await workflow_runs(sources.client, but=stored.ended)
    unknown = [run for run in runs if run.id not in stored.ended]
    logs = await operation_logs(sources.client, unknown, apps=sources.code)
    infer_operations(logs, sources.code)
    apps = await sources.sessions.list_apps()
    compared = await compare(sources, logs, apps=_apps(sources, apps))
    cases = await stalled_workflows(sources, runs, stored.records)
    cases += await regressions(sources, compared)
    cases += orphans(sources, compared, is_empty=not apps)
    stalled = " ".join(one.finding.problem for one in cases if one.finding.kind is Kind.STALLED)
    others = [log for log in logs if f"workflow {log.workflow_id} " not in stalled]
    cases += unexamined(sources, others, apps=_apps(sources, apps))
    by_first_run = {log.first_run_id: log for log in logs}
    for key, records in stored.records.items():
        if sources.covers(key) and key not in compared.keys:
            for record in records:
                cases += await _lease(sources, key, record, by_first_run, known=stored.known)
    async for key in sources.session_keys():
        if key not in compared.keys:
            cases += await _session(sources, key)
    return cases


def _apps(sources: Sources, stored: Sequence[str]) -> set[str]:
    """Return the apps of the store; other apps may share its Temporal.

    If the operator declares sessions lost, the apps with available code are included: they may have
    lost all their sessions.
    """
    named = {app.name for app in sources.code} if sources.missing is Missing.LOST else set[str]()
    return named | {*stored}


async def _lease(
    sources: Sources,
    key: SessionKey,
    record: InvocationRecord,
    logs: Mapping[str, OperationLog],
    *,
    known: bool,
) -> list[Case]:
    """Return the disagreement between an invocation and its lease owner, if there is one."""
    workflow = await owning_workflow(sources.client, record)
    log = logs.get(workflow.owner.first_run_id) if workflow else None
    found = await orphaned_invocation(sources, key, record, workflow, log, store_known=known)
    found = found or await stale_workflow(sources, key, record, workflow, log)
    return [found] if found else []


async def _session(sources: Sources, key: SessionKey) -> list[Case]:
    records = await sources.records(key)
    try:
        return [
            *await open_calls(sources.sessions, key, records),
            *await broken_logs(sources.sessions, key, records),
        ]
    except SessionNotFoundError:
        return []  # deleted in the meantime


@dataclass
class _StoredInvocations:
    """The invocations in the store, compared with the workflows in Temporal."""

    records: Records = field(default_factory=Records)
    """All invocations except those that have ended both in the store and in Temporal."""
    ended: set[str] = field(default_factory=set[str])
    """Workflows of ended invocations. The store has these invocations completely, so their
    histories need not be read."""
    known: bool = False
    """Whether Temporal has the workflow of any invocation."""


async def _stored_invocations(
    sources: Sources, ids: Collection[str], open_ids: Collection[str]
) -> _StoredInvocations:
    stored = _StoredInvocations()
    for app in await sources.sessions.list_apps():
        async for key, record in sources.sessions.all_invocations(app_name=app):
            owner = TemporalLeaseOwner.parse(record.lease_owner)
            name = owner.workflow_id if owner else ""
            stored.known = stored.known or name in ids
            if record.status.closed and name in ids:
                stored.ended.add(name)
            if not record.sealed or name in open_ids:
                stored.records.setdefault(key, []).append(record)
    return stored
