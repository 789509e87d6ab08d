"""Sessions whose events or state do not add up."""

from collections import Counter
from collections.abc import Iterator
from typing import Any

from pydantic import ValidationError

from durable_adk.repair.findings import Case, Kind, case
from durable_adk.sessions.base_session_service import BaseSessionService
from durable_adk.sessions.rebuilt import is_own
from durable_adk.sessions.records import InvocationRecord, StoredEvent
from durable_adk.sessions.session import SessionKey


async def broken_logs(
    store: BaseSessionService, key: SessionKey, records: list[InvocationRecord]
) -> list[Case]:
    """What is wrong with a session's log, for somebody to look at.

    Nothing of it can come of a crash, so something else has written to the tables, and what that
    meant is not for a program to guess. State that sessions share is not looked at: its last writer
    may be any of them, and what a session was created with counts too.
    """
    for _ in range(ATTEMPTS):
        revision, state = await store.read_state(key)
        try:
            stored = await store.read_events(key, upto=revision)
        except ValidationError as error:
            return [case(Kind.BROKEN_LOG, key, f"an event cannot be read: {error}")]
        if (await store.read_state(key))[0] == revision:
            break  # read at one point in time: nobody has written in between
    else:
        return []  # it is being written to, so it is looked at another time
    initial = await store.read_initial_state(key)
    problems = [
        *_gaps(stored, revision),
        *_strangers(stored, records),
        *_differences(state, initial, stored, key),
    ]
    return [case(Kind.BROKEN_LOG, key, problem) for problem in problems]


ATTEMPTS = 3


def _gaps(stored: list[StoredEvent], revision: int) -> Iterator[str]:
    """I3: 1, 2, 3 ... up to the revision."""
    seqs = [item.seq for item in stored]
    missing = sorted({*range(1, revision + 1)} - {*seqs})
    if missing:
        yield f"of {revision} events these are missing: {', '.join(map(str, missing[:10]))}"
    counts = Counter(item.event.id for item in stored)
    twice = sorted(name for name, count in counts.items() if count > 1)
    if twice:
        yield f"these events are there twice: {', '.join(twice[:10])}"


def _strangers(stored: list[StoredEvent], records: list[InvocationRecord]) -> Iterator[str]:
    """Invocations whose user event is not where their record says."""
    owners = {item.seq: item.event.invocation_id for item in stored}
    for record in records:
        if owners.get(record.start_seq) != record.invocation_id:
            yield (
                f"invocation {record.invocation_id} is said to begin with event "
                f"{record.start_seq}, which is none of its"
            )


def _differences(
    state: dict[str, Any], initial: dict[str, Any], stored: list[StoredEvent], key: SessionKey
) -> Iterator[str]:
    """I4: the session's own state is what it began with, and then each event's delta."""
    folded = dict(initial)
    for item in stored:
        folded |= item.event.actions.state_delta
    own = {name: value for name, value in folded.items() if is_own(key, name)}
    wrong = sorted(name for name, value in own.items() if state.get(name, _NONE) != value)
    if wrong:
        yield f"the state is not what the events say for the keys {', '.join(wrong[:10])}"


_NONE = object()
