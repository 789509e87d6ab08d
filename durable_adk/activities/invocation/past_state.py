"""The session state that a custom agent's body starts with, also when it starts again."""

from typing import Any

from durable_adk.activities.dependencies import Dependencies
from durable_adk.json_values import canonical
from durable_adk.sessions.session import SessionKey
from durable_adk.wire.messages import check_size


async def state_for_bodies(
    deps: Dependencies, key: SessionKey, *, invocation_id: str, revision: int
) -> dict[str, Any]:
    """See `state_as_of`.

    Raises:
        PayloadTooLargeError: It does not fit into a payload, which would hang the workflow.
    """
    state = await state_as_of(deps, key, invocation_id=invocation_id, revision=revision)
    check_size(canonical(state), "The session's state, which custom agents are given,")
    return state


async def state_as_of(
    deps: Dependencies, key: SessionKey, *, invocation_id: str, revision: int
) -> dict[str, Any]:
    """The session's state without what the invocation itself has changed after a revision.

    A workflow that was reset, or whose task is done again, runs the bodies of custom agents once
    more. One that was shown its own changes would make other events than those that are stored.
    What a key that sessions share held before is known only if an event of this session tells it.
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
