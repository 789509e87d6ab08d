"""What the sender of a message learns of it."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from typing import Any, cast

import pytest

from durable_adk.client.invocation_client import Backend, InvocationClient
from durable_adk.errors import InvocationNotFoundError
from durable_adk.events import Event
from durable_adk.sessions import InMemorySessionService, SessionKey, Status
from durable_adk.sessions.records import StoredEvent
from durable_adk.wire.messages import InvocationRequest, InvocationResult, user_content

KEY = SessionKey("app", "u", "s")


class Runs:
    """A backend whose first run is an old one, which ends without storing anything."""

    def __init__(self) -> None:
        self.sessions = InMemorySessionService()
        self.started = 0
        self.old: Callable[[], Any] = lambda: None

    async def start(self, _: InvocationRequest) -> "asyncio.Task[Any]":
        """Attach to the old run, or start another one."""
        self.started += 1
        return asyncio.create_task(self._end() if self.started == 1 else self._run())

    def release(self, _: Any) -> None:
        """Nothing is kept."""

    async def _end(self) -> InvocationResult:
        await self.old()
        ended = {"text": "", "events": 1, "model_calls": 1, "tool_calls": 0, "revision": 1}
        return InvocationResult(**KEY.ids(), **ended, invocation_id="i", status=Status.COMPLETED)

    async def _run(self) -> None:
        message = user_content("hi")
        event = Event(id="i.0", invocation_id="i", author="user", timestamp=1.0, content=message)
        opened = await self.sessions.open_invocation(
            KEY, invocation_id="i", lease_owner="h", user_event=event
        )
        await self.sessions.close_invocation(
            KEY, invocation_id="i", epoch=opened.epoch, status=Status.COMPLETED
        )

    async def replace_session(self) -> None:
        """Delete the session, and create another of its name."""
        named = {"app_name": "app", "user_id": "u", "session_id": "s"}
        await self.sessions.delete_session(**named)
        await self.sessions.create_session(**named)

    async def send(self) -> list[str]:
        """Send a message; the ids of its events."""
        backend = cast("Backend", self)
        client = InvocationClient(sessions=self.sessions, backend=backend, credentials=None)
        request = InvocationRequest.parse({**KEY.ids(), "invocation_id": "i", "message": "hi"})
        feed = cast("AsyncGenerator[Any]", client.start(request))
        async with aclosing(feed) as items:
            return [item.event.id async for item in items if isinstance(item, StoredEvent)]


async def _nothing() -> None:
    """The run just ends."""


async def test_a_run_of_a_deleted_session_that_is_about_to_end_swallows_no_message() -> None:
    """DUR-13: the id is that of an invocation whose session was deleted a moment ago."""
    runs = Runs()
    runs.old = _nothing
    await runs.sessions.create_session(app_name="app", user_id="u", session_id="s")
    await runs.replace_session()
    assert await runs.send() == ["i.0"]
    assert runs.started == 2


async def test_a_message_whose_session_is_deleted_meanwhile_is_not_sent_again() -> None:
    """It ran in the session that was deleted, and nothing of it runs in the next one."""
    runs = Runs()
    runs.old = runs.replace_session
    await runs.sessions.create_session(app_name="app", user_id="u", session_id="s")
    with pytest.raises(InvocationNotFoundError):
        await runs.send()
    assert runs.started == 1
