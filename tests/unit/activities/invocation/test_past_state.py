"""What the body of a custom agent is shown that is begun again."""

from durable_adk.activities.dependencies import Dependencies
from durable_adk.activities.invocation.past_state import state_as_of
from durable_adk.apps import AppRegistry
from durable_adk.events import Event, EventActions
from durable_adk.sessions import InMemorySessionService, SessionKey

KEY = SessionKey("app", "u", "s")


async def test_an_invocation_begun_again_is_not_shown_its_own_changes() -> None:
    """I2: keys it has added are gone, others are as they were; what others changed stays."""
    sessions = InMemorySessionService()
    given = {"given": 0, "touched": 0, "user:touched": 0}
    session = await sessions.create_session(
        app_name="app", user_id="u", session_id="s", state=given
    )
    message = Event(id="i.0", invocation_id="i", author="user", timestamp=1.0)
    message.actions = EventActions(state_delta={"sent": "i", "user:told": 1})
    record = await sessions.open_invocation(
        KEY, invocation_id="i", lease_owner="h", user_event=message
    )
    changes = {"touched": 1, "added": 1, "user:touched": 1, "user:told": 2, "app:added": 1}
    own = Event(id="i.1", invocation_id="i", author="a", timestamp=1.0)
    own.actions = EventActions(state_delta=changes)
    await sessions.commit_event(KEY, own, invocation_id="i", epoch=record.epoch)
    session = await sessions.get_session(app_name="app", user_id="u", session_id="s")
    assert session is not None
    other = Event(id="o", invocation_id="o", author="user")
    other.actions = EventActions(state_delta={"other": 1, "given": 1})
    await sessions.append_event(session, other)

    deps = Dependencies(registry=AppRegistry([]), sessions=sessions)
    state = await state_as_of(deps, KEY, invocation_id="i", revision=record.start_seq)
    assert state == {"given": 1, "touched": 0, "sent": "i", "other": 1, "user:told": 1}
    _, now = await sessions.read_state(KEY)
    assert await state_as_of(deps, KEY, invocation_id="i", revision=2) == now
