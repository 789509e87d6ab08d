"""What every session service knows and forgets of one person."""

from durable_adk.sessions.session import CHILD_PREFIX
from tests.unit.sessions.contract import names


async def test_all_sessions_of_a_user_are_told(service, key):
    """S6: with those of agents used as tools, which are in no list; in order; nobody else's."""
    keys = [key._replace(session_id=one) for one in ("b", "a", f"{CHILD_PREFIX}c")]
    for one in (*keys, key._replace(user_id="somebody else")):
        await service.create_session(**names(one))
    whose = {"app_name": key.app_name, "user_id": key.user_id}
    assert await service.user_sessions(**whose) == sorted(keys)
    assert await service.user_sessions(app_name=key.app_name, user_id="nobody") == []


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
