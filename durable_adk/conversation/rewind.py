"""The event that takes a session back to before an invocation (semantics REW-1).

Decides only: the runner saves the artifacts, then appends the event.
"""

from collections.abc import Iterable, Mapping, Sequence
from copy import deepcopy
from typing import Any

from durable_adk.conversation.history import USER
from durable_adk.errors import InvocationNotFoundError
from durable_adk.events.event import Event
from durable_adk.events.event_actions import EventActions
from durable_adk.json_values import canonical
from durable_adk.sessions.state import APP_PREFIX, TEMP_PREFIX, USER_PREFIX

_OTHER_SCOPES = (APP_PREFIX, USER_PREFIX, TEMP_PREFIX)


def rewind_event(
    events: Sequence[Event],
    *,
    before_invocation_id: str,
    current_state: Mapping[str, Any],
    initial_state: Mapping[str, Any] | None = None,
) -> Event:
    """The marker that hides all events from the invocation's first up to itself (REW-1, REW-2).

    Its state delta gives each of the session's own keys the value it had before the invocation, and
    None to those that did not exist; keys of the app, the user and the invocation stay. Earlier
    rewinds need no care: their deltas are among the events, so they took part in making the state.

    Args:
        events: All committed events of the session, in order, rewound ones as well.
        before_invocation_id: The first invocation to take back; it may be one that was taken back
            already, or a rewind's own, which undoes that rewind.
        current_state: The session's state as it is now.
        initial_state: What the session was created with, which no event tells. Left out, a key that
            was changed only since then gets None, as in 2.13.

    Returns:
        An event by the user, without id, invocation and timestamp, which who appends it gives it,
        and with an empty `artifact_delta`, for the versions saved for `artifacts_to_restore`.

    Raises:
        InvocationNotFoundError: The session has no such invocation (REW-4).
    """
    start = _start(events, before_invocation_id)
    before = dict(initial_state or {})
    for event in events[:start]:
        before |= event.actions.state_delta
    changed = _keys(event.actions.state_delta for event in events[start:])
    delta = {
        key: deepcopy(before.get(key))
        for key in changed
        if not key.startswith(_OTHER_SCOPES)
        and canonical(before.get(key)) != canonical(current_state.get(key))
    }
    return Event(
        author=USER,
        actions=EventActions(state_delta=delta, rewind_before_invocation_id=before_invocation_id),
    )


def artifacts_to_restore(
    events: Sequence[Event], *, before_invocation_id: str
) -> dict[str, int | None]:
    """The session's files that changed since, with the version to save anew (REW-3).

    Args:
        events: All committed events of the session, in order, rewound ones as well.
        before_invocation_id: The first invocation to take back.

    Returns:
        By filename, the version before the invocation, or None where there was no such file. The
        content of that version is to be saved as a new one, an empty one for None. Files of the
        user (`user:`) are left out.

    Raises:
        InvocationNotFoundError: The session has no such invocation (REW-4).
    """
    start = _start(events, before_invocation_id)
    before: dict[str, int] = {}
    for event in events[:start]:
        before |= event.actions.artifact_delta
    changed = _keys(event.actions.artifact_delta for event in events[start:])
    return {name: before.get(name) for name in changed if not name.startswith(USER_PREFIX)}


def taken_back(events: Sequence[Event], *, before_invocation_id: str) -> list[str]:
    """Ids of the invocations that have events from there on, and so lose some of them.

    Raises:
        InvocationNotFoundError: The session has no such invocation (REW-4).
    """
    start = _start(events, before_invocation_id)
    return list(dict.fromkeys(event.invocation_id for event in events[start:]))


def _start(events: Sequence[Event], invocation_id: str) -> int:
    for position, event in enumerate(events):
        if invocation_id and event.invocation_id == invocation_id:
            return position
    raise InvocationNotFoundError(
        f"The session has no invocation {invocation_id!r} to rewind before."
    )


def _keys(deltas: Iterable[Mapping[str, Any]]) -> list[str]:
    """All keys, each once, in the order in which they were first written."""
    return list(dict.fromkeys(key for delta in deltas for key in delta))
