"""Workflows whose code no worker gets through: they stand still, and nobody is told."""

from collections.abc import Collection, Iterable, Mapping

from temporalio.client import Client

from durable_adk.holders import TemporalHolder
from durable_adk.repair.findings import Case, Kind, case
from durable_adk.repair.sources import Sources, described
from durable_adk.repair.trails import Trail
from durable_adk.sessions.records import InvocationRecord
from durable_adk.sessions.session import SessionKey

TRIES = 4
"""Attempts of a workflow task that are no accident any more; fewer are lost with dead workers."""
_SHOWN = 300  # characters of an error

Whose = tuple[SessionKey, str | None]
"""A session, and its invocation."""


async def stalled(
    sources: Sources,
    trails: Iterable[Trail],
    records: Mapping[SessionKey, Iterable[InvocationRecord]],
    *,
    apps: Collection[str],
) -> list[Case]:
    """The open workflows whose task fails, or loses its worker, again and again (I11).

    Args:
        sources: Where to look.
        trails: Of all workflows that have not ended in the store.
        records: The invocations of all sessions.
        apps: Those that the store is for.
    """
    known = _holders(records)
    found: list[Case] = []
    for trail in trails:
        whose = known.get(trail.workflow_id) or _asked(trail)
        if trail.hindrance is None or whose is None:
            continue
        key, invocation_id = whose
        if key.app_name in apps and sources.mean(key):
            tries = await _tries(sources.client, trail)
            if tries >= TRIES:
                problem = (
                    f"workflow {trail.workflow_id} stands still: its task is at attempt {tries}, "
                    f"and the first one ended so: {trail.hindrance[:_SHOWN]}"
                )
                found.append(case(Kind.STALLED, key, problem, invocation_id=invocation_id))
    return found


def _holders(records: Mapping[SessionKey, Iterable[InvocationRecord]]) -> dict[str, Whose]:
    """By the ids of workflows."""
    found: dict[str, Whose] = {}
    for key, listed in records.items():
        for record in listed:
            if holder := TemporalHolder.parse(record.holder):
                found[holder.workflow_id] = (key, record.invocation_id)
    return found


def _asked(trail: Trail) -> Whose | None:
    """Whose the workflow is to become; None: nobody can say."""
    for act in trail.acts:
        key = getattr(act.step, "key", None)
        if isinstance(key, SessionKey):
            return key, getattr(act.step, "invocation_id", None)
    return None


async def _tries(client: Client, trail: Trail) -> int:
    """How often its task has been tried since it last came to an end; 0: there is none."""
    description = await described(client, trail.workflow_id, trail.first_run_id)
    return description.raw_description.pending_workflow_task.attempt if description else 0
