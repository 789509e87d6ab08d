"""The session state that a custom agent's body starts with, also when it is replayed."""

from typing import Any

from durable_adk.activities.dependencies import Dependencies
from durable_adk.json_values import canonical
from durable_adk.sessions.session import SessionKey
from durable_adk.wire.messages import check_size


async def state_for_bodies(
    deps: Dependencies, key: SessionKey, *, invocation_id: str, revision: int
) -> dict[str, Any]:
    """Return `state_as_of`, checked against the payload limit.

    Raises:
        PayloadTooLargeError: The state does not fit into a payload, which would hang the workflow.
    """
    state = await state_as_of(deps, key, invocation_id=invocation_id, revision=revision)
    check_size(canonical(state), "The session's state, which custom agents are given,")
    return state


async def state_as_of(
    deps: Dependencies, key: SessionKey, *, invocation_id: str, revision: int
) -> dict[str, Any]:
    """Return the session's state without the invocation's own changes after a revision.

    A workflow that was reset, or whose task is replayed, runs the bodies of custom agents again. A
    body that saw its own later changes would produce events that differ from the stored ones. The
    earlier value of a key that sessions share is known only if an event of this session holds it.
    """
    _, state = await deps.sessions.read_state(key)
    later = await deps.sessions.read_events(key, after=revision)
    own = {item.seq for item in later if item.event.invocation_id == invocation_id}
    changed = {name for item in later if item.seq in own for name in item.event.actions.state_delta}
    if changed:
        before = await deps.sessions.read_initial_state(key)
        for item in await deps.sessions.read_events(key):
            if item.seq not in own:
                before |= item.event.actions.state_delta
        state = {name: value for name, value in state.items() if name not in changed}
        state |= {name: before[name] for name in changed if name in before}
    return state
