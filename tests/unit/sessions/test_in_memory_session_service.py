"""ADK's calls of the in-memory service for code without an event loop."""

import asyncio

from durable_adk.sessions import InMemorySessionService

SESSION = {"app_name": "app", "user_id": "u", "session_id": "s"}


def test_sync_calls_do_what_the_others_do() -> None:
    """Old notebooks and tests use them."""
    service = InMemorySessionService()
    made = service.create_session_sync(**SESSION, state={"k": 1})
    assert service.get_session_sync(**SESSION) == made
    assert asyncio.run(service.get_session(**SESSION)) == made
    listed = service.list_sessions_sync(app_name="app", user_id="u")
    assert [session.id for session in listed.sessions] == ["s"]
    service.delete_session_sync(**SESSION)
    assert service.get_session_sync(**SESSION) is None


async def test_sync_calls_work_inside_of_an_event_loop() -> None:
    """ADK's tests call them from async functions."""
    service = InMemorySessionService()
    assert service.create_session_sync(**SESSION).id == "s"
    assert await service.get_session(**SESSION)
