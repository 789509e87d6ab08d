"""The event that rewinds a session to before an invocation (REW-1).

The runner saves the artifacts, then appends the event.
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
    """Return the event that removes all events since the start of an invocation (REW-1, REW-2).

    Its state delta restores the values that the session's own keys had before the invocation, with
    None for keys that did not exist. Keys of the app, the user and the invocation are unchanged.
    Earlier rewinds need no special treatment, because their state deltas are among the events.

    Args:
        events: All committed events of the session, in order, including rewound ones.
        before_invocation_id: The first invocation to remove. It may already be removed. If it is a
            rewind's, the rewind is undone.
        current_state: The session's current state.
        initial_state: The session's state at creation, which is in no event. Without it, a key of
            that state gets None if it was changed after the invocation began, as in ADK 2.13.

    Returns:
        An event of the user. The caller sets its id, invocation and timestamp, and adds the
        versions saved for `artifacts_to_restore` to its `artifact_delta`.

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
    """Return the session's artifacts that changed since, with the version to restore (REW-3).

    Args:
        events: All committed events of the session, in order, including rewound ones.
        before_invocation_id: The first invocation to remove.

    Returns:
        By filename, the version before the invocation, or None if there was none. The caller saves
        the content of that version as a new version, empty for None. Artifacts of the user
        (`user:`) are left out.

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
    """Return the ids of the invocations that lose events.

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
        f"Invocation ID not found: {invocation_id}; the session has no such one to rewind before."
    )


def _keys(deltas: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return all keys once, in the order of their first write."""
    return list(dict.fromkeys(key for delta in deltas for key in delta))
