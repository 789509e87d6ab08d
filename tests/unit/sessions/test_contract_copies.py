"""Sessions that are copied into a store."""

import json

import pytest

from durable_adk.errors import EventConflictError, StaleSessionError, StateValueError
from durable_adk.events.event import Event
from durable_adk.events.event_actions import EventActions
from durable_adk.sessions.log.copies import CopiedEvent, CopiedSession
from durable_adk.sessions.records import GetSessionConfig, Status
from durable_adk.sessions.session import SessionKey


def events(*numbers: int) -> list[CopiedEvent]:
    """Events that set the key `n`, and one of the user."""
    return [
        CopiedEvent.read(
            {
                "id": f"x{n}",
                "author": "root",
                "invocation_id": "e-1",
                "timestamp": 100.5 + n,
                "actions": {"state_delta": {"n": n, "user:n": n}, "render_ui_widgets": ["w"]},
                "turn_complete_reason": f"root@{n}",
            }
        )
        for n in numbers
    ]


@pytest.fixture
def copied(key) -> CopiedSession:
    """A session without its events."""
    return CopiedSession(key, {"n": 3, "begun": [1]}, create_time=50.0, update_time=103.5)


async def test_a_copy_has_the_times_the_order_and_the_state(service, key, copied) -> None:
    """Also if later events are appended to it by another copy."""
    await service.copy_session(copied, events(1, 2))
    await service.copy_session(copied, events(1, 2, 3), after=2)
    session = await service.get_session(**key._asdict())
    assert [(one.id, one.timestamp) for one in session.events] == [
        ("x1", 101.5),
        ("x2", 102.5),
        ("x3", 103.5),
    ]
    assert session.state == {"n": 3, "begun": [1]}
    assert session.last_update_time == 103.5
    assert (await service.read_creation(key)).time == 50.0
    assert await service.read_initial_state(key) == {"begun": [1]}


async def test_what_only_the_other_program_knows_is_kept(service, key, copied) -> None:
    """Its fields are in the store, and no event that is read has them."""
    await service.copy_session(copied, events(1, 2))
    first = (await service.read_copied(key, limit=1))[0]
    assert first.rest == {
        "turn_complete_reason": "root@1",
        "actions": {"render_ui_widgets": ["w"]},
    }
    assert first.is_same(events(1)[0])
    read = (await service.read_events(key, limit=1))[0].event
    assert (
        json.loads(read.to_json()).keys().isdisjoint({"turn_complete_reason", "turnCompleteReason"})
    )


async def test_a_repeated_copy_changes_nothing(service, key, copied) -> None:
    """Events fit only where the copy ends."""
    await service.copy_session(copied, events(1, 2))
    with pytest.raises(StaleSessionError):
        await service.copy_session(copied, events(1, 2))
    with pytest.raises(EventConflictError):
        await service.copy_session(copied, events(1, 2, 1), after=2)
    assert (await service.read_session(key)).events == 2


async def test_a_running_session_gets_no_copy(service, key, copied) -> None:
    """An invocation's events stay together."""
    user_event = Event(id="e-9.0", invocation_id="e-9", author="user", timestamp=1.0)
    await service.open_invocation(
        key,
        invocation_id="e-9",
        lease_owner="local:1",
        user_event=user_event,
        create_session=True,
    )
    with pytest.raises(StaleSessionError):
        await service.copy_session(copied, events(1, 2), after=1)


async def test_a_conversation_goes_on_in_a_copy(service, key, copied) -> None:
    """An invocation can be opened, and sees what was copied."""
    await service.copy_session(copied, events(1, 2))
    user_event = Event(
        id="e-9.0",
        invocation_id="e-9",
        author="user",
        timestamp=200.0,
        actions=EventActions(state_delta={"n": 9}),
    )
    await service.open_invocation(
        key, invocation_id="e-9", lease_owner="local:1", user_event=user_event
    )
    session = await service.get_session(**key._asdict())
    assert [one.id for one in session.events] == ["x1", "x2", "e-9.0"]
    assert session.state == {"n": 9, "begun": [1]}


async def test_the_other_programs_invocations_are_over(service, key, copied) -> None:
    """Each has a record from its first to its last event, across copies."""
    await service.copy_session(copied, events(1, 2))
    await service.copy_session(copied, events(1, 2, 3), after=2)
    record = await service.get_invocation(key, "e-1")
    assert (record.status, record.start_seq, record.end_seq) == (Status.COMPLETED, 1, 3)
    assert record.update_time == 103.5
    assert [one.invocation_id async for _, one in service.all_invocations(**key._asdict())] == [
        "e-1"
    ]


async def test_an_event_of_another_program_is_appended_once(service, key, copied) -> None:
    """It needs a current copy, changes the state of all scopes and leaves our records alone."""
    await service.copy_session(copied, events(1, 2))
    (event,) = events(3)
    stored = await service.append_copied(key, event, revision=2)
    assert (stored.events, stored.update_time) == (3, 103.5)
    assert (await service.append_copied(key, event, revision=3)).events == 3
    with pytest.raises(StaleSessionError):
        await service.append_copied(key, events(4)[0], revision=2)
    session, found = await service.read_conversation(key, GetSessionConfig(num_recent_events=1))
    assert session.state == {"n": 3, "user:n": 3, "begun": [1]}
    assert session.revision == 3
    assert found[0].rest == event.rest
    assert (await service.get_invocation(key, "e-1")).end_seq == 3


async def test_shared_state_that_is_there_is_kept(service, key) -> None:
    """Missing keys are set, and the others returned with the value that they have."""
    user = SessionKey(key.app_name, key.user_id, "")
    assert await service.copy_state(user, {"user:a": 1, "user:b": None}) == {}
    assert await service.copy_state(user, {"user:a": 2, "user:b": None, "user:c": 3}) == {
        "user:a": 1
    }
    state = await service.get_user_state(app_name=key.app_name, user_id=key.user_id)
    assert state == {"a": 1, "b": None, "c": 3}
    with pytest.raises(StateValueError):
        await service.copy_state(user, {"user:d": float("nan")})
