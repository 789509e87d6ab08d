"""The examination of a session store and the Temporal that runs its invocations."""

from temporalio.client import WorkflowExecutionStatus

from durable_adk.errors import SessionNotFoundError
from durable_adk.holders import TemporalHolder
from durable_adk.repair.behind import behind
from durable_adk.repair.broken_logs import broken_logs
from durable_adk.repair.dead_holders import dead_holders
from durable_adk.repair.findings import Case
from durable_adk.repair.open_calls import open_calls
from durable_adk.repair.redo import ALL
from durable_adk.repair.regressions import compare, first_runs, orphans, regressions
from durable_adk.repair.sources import Missing, Sources
from durable_adk.repair.stalled import stalled
from durable_adk.repair.trails import runs_of, trails_of
from durable_adk.repair.untold import tell_all
from durable_adk.sessions.records import InvocationRecord
from durable_adk.sessions.session import SessionKey

Records = dict[SessionKey, list[InvocationRecord]]


async def examine(sources: Sources) -> list[Case]:
    """Everything that is wrong; nothing is changed.

    A session that lacks events is looked at for nothing else in the store: what it seems to suffer
    from may be in the events it lacks. Sessions that are written to meanwhile are told from broken
    ones by reading first what is written last: histories, then sessions.
    """
    records = await _records(sources)
    ended, going = _holders(records)
    runs = await runs_of(sources.client)
    unknown = [run for run in runs if run.id not in ended]
    trails = await trails_of(sources.client, unknown, apps=sources.code)
    tell_all(trails, sources.code)
    compared = await compare(sources, trails, apps=_apps(sources, records))
    found = await stalled(sources, runs, records)
    found += await regressions(sources, compared)
    found += orphans(sources, compared, is_empty=not records)
    at_home = any(run.id in ended | going for run in runs)
    open_ids = {run.id for run in runs if run.status is WorkflowExecutionStatus.RUNNING}
    first = first_runs(trails)
    for key, listed in records.items():
        if sources.mean(key) and key not in compared.keys:
            found += await dead_holders(sources, key, listed, first, at_home=at_home)
            found += await behind(sources, key, listed, first, going=open_ids)
            found += await _session(sources, key, listed)
    return found


def _apps(sources: Sources, records: Records) -> set[str]:
    """Those that the store is for; others may share its Temporal.

    Whoever says that sessions are lost means also an app that has lost all of them, if its code is
    named.
    """
    named = {app.name for app in sources.code} if sources.missing is Missing.LOST else set[str]()
    return named | {key.app_name for key in records}


async def _session(
    sources: Sources, key: SessionKey, records: list[InvocationRecord]
) -> list[Case]:
    try:
        return [
            *await open_calls(sources.sessions, key, records),
            *await broken_logs(sources.sessions, key, records),
        ]
    except SessionNotFoundError:
        return []  # deleted meanwhile


async def _records(sources: Sources) -> Records:
    """The invocations of all sessions; of a session without any, none."""
    found: Records = {}
    for app in await sources.sessions.list_apps():
        listed = await sources.sessions.list_sessions(app_name=app)
        found |= {session.key: [] for session in listed.sessions}
        for key, record in await sources.sessions.list_invocations(app_name=app, limit=ALL):
            found.setdefault(key, []).append(record)
    return found


def _holders(records: Records) -> tuple[set[str], set[str]]:
    """Ids of the workflows whose invocations the store knows as ended, and of all others.

    What has ended in the store is in it as a whole, so these histories need not be read.
    """
    ended: set[str] = set()
    going: set[str] = set()
    for listed in records.values():
        for record in listed:
            if holder := TemporalHolder.parse(record.holder):
                (ended if record.status.closed else going).add(holder.workflow_id)
    return ended, going
