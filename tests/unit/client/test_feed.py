"""Following an invocation that ends while it is paused and its session is busy."""

import asyncio

import pytest

from durable_adk.client import feed
from durable_adk.errors import SessionBusyError
from durable_adk.events import Event
from durable_adk.sessions import InMemorySessionService, InvocationRecord, SessionKey, Status
from durable_adk.sessions.records import StoredEvent
from tests.support.waiting import PATIENCE
from tests.unit.sessions.contract import watched

KEY = SessionKey("app", "u", "s")


def event(event_id: str) -> Event:
    """One that says nothing."""
    return Event(id=event_id, invocation_id=event_id.partition(".")[0], author="a", timestamp=1.0)


class Ending:
    """An invocation that is cancelled while another one has its session."""

    def __init__(self) -> None:
        self.sessions = InMemorySessionService()

    async def begin(self) -> None:
        """Pause the one, open the other, and end the first."""
        one = await self._open("one")
        await self.sessions.pause_invocation(KEY, invocation_id="one", epoch=one.epoch)
        self.busy = await self._open("busy")
        with pytest.raises(SessionBusyError):
            await self.end()

    async def end(self) -> None:
        """Cancel the one, with an event that says so."""
        await self.sessions.close_paused(
            KEY, invocation_id="one", epoch=1, status=Status.CANCELLED, seals=[event("one.end")]
        )

    async def give_back(self) -> None:
        """End the other one."""
        await self.sessions.close_invocation(
            KEY, invocation_id="busy", epoch=self.busy.epoch, status=Status.COMPLETED
        )

    async def followed(self) -> list[str]:
        """What a follower of the first sees."""
        changes = feed.follow_changes(self.sessions, KEY, invocation_id="one")
        return [item.event.id async for item in changes if isinstance(item, StoredEvent)]

    async def _open(self, name: str) -> InvocationRecord:
        return await self.sessions.open_invocation(
            KEY,
            invocation_id=name,
            lease_owner="local:1",
            user_event=event(f"{name}.0"),
            create_session=True,
        )


async def test_a_follower_sees_what_seals_an_end() -> None:
    """TRAP-45: closed is not all; those events come when the session is free."""
    ending = Ending()
    await ending.begin()
    follower = asyncio.create_task(ending.followed())
    await watched(ending.sessions)
    await ending.give_back()
    await ending.end()
    assert await follower == ["one.0", "one.end"]


async def test_a_follower_does_not_wait_for_another_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """I15: it has ended, and the session may be busy for hours."""
    monkeypatch.setattr(feed, "CLOSING_TIMEOUT", 0.1)
    monkeypatch.setattr(feed, "POLL", 0.1)
    ending = Ending()
    await ending.begin()
    async with asyncio.timeout(PATIENCE):
        assert await ending.followed() == ["one.0"]
