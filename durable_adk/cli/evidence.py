"""What a run left behind: counted in the records, not in our memory of it."""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from temporalio.api.history.v1 import HistoryEvent
from temporalio.client import WorkflowHandle

from durable_adk.sessions.base_session_service import BaseSessionService, Status
from durable_adk.sessions.session import SessionKey


@dataclass(frozen=True, kw_only=True)
class Activity:
    """An activity of the workflow's history, with its last attempt."""

    kind: str
    attempts: int
    started: float
    """Seconds since the epoch, of the last attempt."""


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """The records of one invocation."""

    completed: bool
    """Whether the session store says so."""
    model_calls: int
    """Attempts of activity ``call_model`` in the workflow's history."""
    tool_runs: int
    """Attempts of activity ``call_tool`` there."""
    events: int
    """Events of the invocation in the session store."""
    duplicates: int
    """How many of them, or of their sequence numbers, are there twice."""
    bookings_begun: int
    """Runs of the tool in its own ledger."""
    bookings_done: int
    """Effects of the tool there."""
    taken_over: float | None
    """When the second run of a tool began (seconds since the epoch), by the history."""


async def collect(
    handle: WorkflowHandle[object, object],
    sessions: BaseSessionService,
    key: SessionKey,
    invocation: str,
    ledger: Path,
) -> Evidence:
    """Read the history, the store and the ledger."""
    done = activities([event async for event in handle.fetch_history_events()])
    record = await sessions.get_invocation(key, invocation)
    stored = [
        item for item in await sessions.read_events(key) if item.event.invocation_id == invocation
    ]
    distinct = min(len({item.event.id for item in stored}), len({item.seq for item in stored}))
    bookings = read_ledger(ledger)
    repeated = [item.started for item in done if item.kind == "call_tool" and item.attempts > 1]
    return Evidence(
        completed=record is not None and record.status is Status.COMPLETED,
        model_calls=sum(item.attempts for item in done if item.kind == "call_model"),
        tool_runs=sum(item.attempts for item in done if item.kind == "call_tool"),
        events=len(stored),
        duplicates=len(stored) - distinct,
        bookings_begun=bookings.count("started"),
        bookings_done=bookings.count("done"),
        taken_over=min(repeated, default=None),
    )


def activities(history: Iterable[HistoryEvent]) -> list[Activity]:
    """The activities of a history that were started; local ones are not in it."""
    kinds: dict[int, str] = {}
    found: list[Activity] = []
    for event in history:
        if event.HasField("activity_task_scheduled_event_attributes"):
            scheduled = event.activity_task_scheduled_event_attributes
            kinds[event.event_id] = scheduled.activity_type.name
        elif event.HasField("activity_task_started_event_attributes"):
            started = event.activity_task_started_event_attributes
            at: datetime = event.event_time.ToDatetime()
            found.append(
                Activity(
                    kind=kinds[started.scheduled_event_id],
                    attempts=started.attempt,
                    started=(at - datetime(1970, 1, 1)).total_seconds(),  # noqa: DTZ001  # both UTC
                )
            )
    return found


def read_ledger(ledger: Path) -> list[str]:
    """What the tool wrote into its ledger, in order: ``started`` and ``done``."""
    lines = ledger.read_text().splitlines() if ledger.exists() else []
    return [json.loads(line)["what"] for line in lines]
