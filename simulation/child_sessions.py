"""Checks of the sessions of agents that are used as tools."""

import json
from collections import Counter
from collections.abc import Iterator
from typing import Any

from simulation.simulation import ChildSession, Result
from simulation.stored_events import calls, responses


def all_calls(result: Result) -> list[Any]:
    """The calls in all sessions."""
    return calls(
        [*result.events, *(event for other in result.child_sessions for event in other.events)]
    )


def all_responses(result: Result) -> list[Any]:
    """The responses in all sessions."""
    events = [*result.events, *(event for other in result.child_sessions for event in other.events)]
    return responses(events)


def child_sessions(result: Result) -> Iterator[str]:
    """Each session is closed, with a response to each call."""
    for other in result.child_sessions:
        yield from (f"{problem} in {other.key.session_id}" for problem in _problems(other))
    open_ones = [run.workflow_id for run in result.runs if run.closed is None]
    yield from (f"I11: {name} is open" for name in open_ones)


def _problems(other: ChildSession) -> Iterator[str]:
    if other.record is None:
        if other.events:
            yield "I5: events without an invocation"
        return  # it was withdrawn before it was opened
    if not other.record.status.closed:
        yield f"I11: the invocation is {other.record.status}"
    if other.lease is not None:
        yield "I6: the lease is held"
    names = Counter(event["id"] for event in other.events)
    yield from (f"I1: event {name} {count} times" for name, count in names.items() if count > 1)
    made, given = calls(other.events), responses(other.events)
    if Counter(one["id"] for one in made) != Counter(one["id"] for one in given):
        yield "I9: calls and responses do not fit"
    fold: dict[str, Any] = {}
    for event in other.events:
        fold |= event["actions"]["stateDelta"]
    if {key: json.loads(text) for key, text in other.state.items()} != fold:
        yield "I4: the state is not that of the deltas"
