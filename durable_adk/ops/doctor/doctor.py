"""The examination of a session store and the Temporal that runs its invocations."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

from durable_adk.errors import SessionNotFoundError
from durable_adk.ops.doctor.behind import behind
from durable_adk.ops.doctor.broken_logs import broken_logs
from durable_adk.ops.doctor.dead_holders import dead_holders
from durable_adk.ops.doctor.findings import Case
from durable_adk.ops.doctor.logs import session_keys
from durable_adk.ops.doctor.open_calls import open_calls
from durable_adk.ops.doctor.redo import records_of
from durable_adk.ops.doctor.regressions import compare, first_runs, orphans, regressions
from durable_adk.ops.doctor.sources import Missing, Sources
from durable_adk.ops.doctor.stalled import stalled
from durable_adk.ops.doctor.trails import ids_of, runs_of, trails_of
from durable_adk.ops.doctor.untold import tell_all
from durable_adk.sessions.lease_owner import TemporalLeaseOwner
from durable_adk.sessions.reading import all_invocations
from durable_adk.sessions.records import InvocationRecord
from durable_adk.sessions.session import SessionKey

Records = dict[SessionKey, list[InvocationRecord]]


async def examine(sources: Sources) -> list[Case]:
    """Everything that is wrong; nothing is changed.

    A session that lacks events is looked at for nothing else in the store: what it seems to suffer
    from may be in the events it lacks. Sessions that are written to meanwhile are told from broken
    ones by reading first what is written last: histories, then sessions.

    In memory are ids of the workflows that Temporal knows, what is open, and a page of all else.
    """
    ids, open_ids = await ids_of(sources.client)
    known = await _known(sources, ids, open_ids)
    runs = await runs_of(sources.client, but=known.ended)
    unknown = [run for run in runs if run.id not in known.ended]
    trails = await trails_of(sources.client, unknown, apps=sources.code)
    tell_all(trails, sources.code)
    apps = await sources.sessions.list_apps()
    compared = await compare(sources, trails, apps=_apps(sources, apps))
    found = await stalled(sources, runs, known.records)
    found += await regressions(sources, compared)
    found += orphans(sources, compared, is_empty=not apps)
    first = first_runs(trails)
    for key, listed in known.records.items():
        if sources.mean(key) and key not in compared.keys:
            found += await dead_holders(sources, key, listed, first, at_home=known.at_home)
            found += await behind(sources, key, listed, first, going=open_ids)
    async for key in session_keys(sources):
        if key not in compared.keys:
            found += await _session(sources, key)
    return found


def _apps(sources: Sources, stored: Sequence[str]) -> set[str]:
    """Those that the store is for; others may share its Temporal.

    Whoever says that sessions are lost means also an app that has lost all of them, if its code is
    named.
    """
    named = {app.name for app in sources.code} if sources.missing is Missing.LOST else set[str]()
    return named | {*stored}


async def _session(sources: Sources, key: SessionKey) -> list[Case]:
    records = await records_of(sources.sessions, key)
    try:
        return [
            *await open_calls(sources.sessions, key, records),
            *await broken_logs(sources.sessions, key, records),
        ]
    except SessionNotFoundError:
        return []  # deleted meanwhile


@dataclass
class _Known:
    """What the store knows of the workflows that Temporal knows."""

    records: Records = field(default_factory=Records)
    """Invocations that may lack something: all but those that have ended here and there."""
    ended: set[str] = field(default_factory=set[str])
    """Workflows whose invocations have ended. They are in the store as a whole, so their histories
    need not be read."""
    at_home: bool = False
    """Whether there is any."""


async def _known(sources: Sources, ids: Collection[str], open_ids: Collection[str]) -> _Known:
    known = _Known()
    for app in await sources.sessions.list_apps():
        async for key, record in all_invocations(sources.sessions, app_name=app):
            lease_owner = TemporalLeaseOwner.parse(record.lease_owner)
            name = lease_owner.workflow_id if lease_owner else ""
            known.at_home = known.at_home or name in ids
            if record.status.closed and name in ids:
                known.ended.add(name)
            if not record.sealed or name in open_ids:
                known.records.setdefault(key, []).append(record)
    return known
