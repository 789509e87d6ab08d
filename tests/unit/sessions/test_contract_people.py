"""What every session service knows and forgets of one person."""

import pytest

from durable_adk.errors import SessionNotFoundError
from durable_adk.sessions.session import CHILD_PREFIX
from tests.unit.sessions.contract import names, opened


async def test_all_sessions_of_a_user_are_told(service, key):
    """S6: with those of agents used as tools, which are in no list; in order; nobody else's."""
    keys = [key._replace(session_id=one) for one in ("b", "a", f"{CHILD_PREFIX}c")]
    for one in (*keys, key._replace(user_id="somebody else")):
        await service.create_session(**names(one))
    whose = {"app_name": key.app_name, "user_id": key.user_id}
    assert await service.user_sessions(**whose) == sorted(keys)
    assert await service.user_sessions(app_name=key.app_name, user_id="nobody") == []


async def test_child_sessions_go_with_their_session(service, key):
    """S6: what agents used as tools have received; nothing else, and none comes later."""
    child = key.child("i1", "call", 0)
    grandchild = child.child("i1", "call", 0)
    others = [
        key._replace(session_id="other"),
        key._replace(session_id="other").child("i1", "call", 0),
        key._replace(user_id="somebody else").child("i1", "call", 0),
    ]
    for one in (key, child, grandchild, *others):
        await opened(service, one)
    await service.delete_session(**names(key))
    known = (key, child, grandchild, *others)
    assert [one for one in known if await service.get_session(**names(one))] == others
    with pytest.raises(SessionNotFoundError):
        await opened(service, key.child("i1", "late", 0), caller=key)
    assert await service.get_session(**names(key.child("i1", "late", 0))) is None
    await opened(service, others[0].child("i1", "next", 0), caller=others[0])


async def test_the_state_of_a_user_is_forgotten(service, key):
    """S6: and neither the app's, nor the session's, nor another user's; a repeat is no error."""
    state = {"app:a": 1, "user:u": 2, "s": 3}
    other = key._replace(user_id="somebody else")
    for one in (key, other):
        await service.create_session(**names(one), state=state)
    for _ in range(2):
        await service.delete_user_state(app_name=key.app_name, user_id=key.user_id)
    await service.scrub()
    assert (await service.get_session(**names(key))).state == {"app:a": 1, "s": 3}
    assert (await service.get_session(**names(other))).state == state
