"""Rewinding while other things happen."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
from google.genai import types

from durable_adk.artifacts import InMemoryArtifactService
from durable_adk.client.rewind import ATTEMPTS, Rewinding
from durable_adk.errors import InvocationNotFoundError, SessionBusyError, StaleSessionError
from durable_adk.events import Event, EventActions
from durable_adk.sessions import InMemorySessionService, SessionKey, Status
from durable_adk.sessions.session import Session
from tests.unit.sessions.contract import watched

KEY = SessionKey("app", "u", "s")
OWNER = KEY._asdict()
Meanwhile = Callable[[], Awaitable[Any]]


class Disturbed(InMemorySessionService):
    """A store in which something else happens just before each append, while there is any."""

    def __init__(self) -> None:
        super().__init__()
        self.meanwhile: list[Meanwhile] = []

    async def append_event(self, session: Session, event: Event) -> Event:
        """See the base class."""
        if self.meanwhile:
            await self.meanwhile.pop(0)()
        return await super().append_event(session, event)


class Gone:
    """Nothing runs here."""

    async def cancel(self, *_: Any) -> bool:
        """See `Backend.cancel`."""
        return False


class SealsLate:
    """Runs of which one ends while another message has come, and is sealed only after that."""

    def __init__(self, place: "Place") -> None:
        self._place = place
        self.sealing: asyncio.Task[Any] | None = None

    async def cancel(self, key: SessionKey, invocation_id: str, _: Any) -> bool:
        """See `Backend.cancel`."""
        busy = await self._place.open("busy")
        end = Event(id="end", invocation_id=invocation_id, author="a", timestamp=2.0)
        close = partial(
            self._place.sessions.close_paused,
            key,
            invocation_id=invocation_id,
            epoch=1,
            status=Status.CANCELLED,
            seals=[end],
        )
        with suppress(SessionBusyError):
            await close()
        await self._place.sessions.close_invocation(
            key, invocation_id="busy", epoch=busy, status=Status.COMPLETED
        )
        self.sealing = asyncio.create_task(self._later(close))
        return True

    async def _later(self, close: Meanwhile) -> None:
        await watched(self._place.sessions)  # the rewind waits for it
        await close()


class Place:
    """A session with one invocation, which wrote a file and state."""

    def __init__(self) -> None:
        self.sessions = Disturbed()
        self.artifacts = InMemoryArtifactService()
        runs: Any = Gone()
        self.rewinding = Rewinding(sessions=self.sessions, backend=runs, artifacts=self.artifacts)

    async def open(self, invocation_id: str, delta: dict[str, Any] | None = None) -> int:
        """Open an invocation; its epoch."""
        version = await self.artifacts.save_artifact(
            **OWNER, filename="f", artifact=types.Part(text=invocation_id)
        )
        event = Event(
            id=f"{invocation_id}.0",
            invocation_id=invocation_id,
            author="user",
            timestamp=1.0,
            actions=EventActions(state_delta=delta or {}, artifact_delta={"f": version}),
        )
        record = await self.sessions.open_invocation(
            KEY, invocation_id=invocation_id, lease_owner="h", user_event=event, create_session=True
        )
        return record.epoch

    async def run(self, invocation_id: str, delta: dict[str, Any] | None = None) -> None:
        """A whole invocation."""
        epoch = await self.open(invocation_id, delta)
        await self.sessions.close_invocation(
            KEY, invocation_id=invocation_id, epoch=epoch, status=Status.COMPLETED
        )

    async def ids(self) -> list[str]:
        """The ids of what is stored, of the marker's only that it is there."""
        events = [item.event for item in await self.sessions.read_events(KEY)]
        return ["!" if e.actions.rewind_before_invocation_id else e.id for e in events]


async def test_a_message_that_comes_meanwhile_wins() -> None:
    """SSN-30, D7: it works with what it found; the rewind is refused and nothing is hidden."""
    place = Place()
    await place.run("e-1", {"a": 1})
    place.sessions.meanwhile = [lambda: place.open("e-2")]
    with pytest.raises(SessionBusyError):
        await place.rewinding.rewind(KEY, "e-1")
    assert await place.ids() == ["e-1.0", "e-2.0"]


async def test_what_ended_meanwhile_is_rewound_too() -> None:
    """REW-1..3: state and files are those of before, although it began without knowing of it."""
    place = Place()
    await place.run("e-1", {"a": 1})
    await place.run("e-2", {"a": 2})
    place.sessions.meanwhile = [lambda: place.run("e-3", {"a": 1, "b": 1})]
    await place.rewinding.rewind(KEY, "e-2")
    assert await place.ids() == ["e-1.0", "e-2.0", "e-3.0", "!"]
    _, state = await place.sessions.read_state(KEY)
    assert state == {"a": 1, "b": None}
    restored = await place.artifacts.load_artifact(**OWNER, filename="f")
    assert restored
    assert restored.text == "e-1"


async def test_it_gives_up_on_a_session_that_never_rests() -> None:
    """SSN-30: the caller gets an error instead of waiting."""
    place = Place()
    await place.run("e-1")
    numbers = iter(range(2, 99))
    place.sessions.meanwhile = [lambda: place.run(f"e-{next(numbers)}")] * 50
    with pytest.raises(StaleSessionError):
        await place.rewinding.rewind(KEY, "e-1")
    assert len(place.sessions.meanwhile) == 50 - ATTEMPTS
    assert "!" not in await place.ids()


async def test_what_waits_for_nobody_is_abandoned() -> None:
    """D9, REW-1: whatever ran the paused invocation is gone, so it is ended in the store."""
    place = Place()
    await place.run("e-1")
    epoch = await place.open("e-2")
    await place.sessions.pause_invocation(KEY, invocation_id="e-2", epoch=epoch)
    await place.rewinding.rewind(KEY, "e-2")
    record = await place.sessions.get_invocation(KEY, "e-2")
    assert record
    assert record.status is Status.ABANDONED
    assert await place.ids() == ["e-1.0", "e-2.0", "!"]


async def test_what_waits_is_sealed_before_it_is_rewound() -> None:
    """I9, REW-1: answers to its calls that came after the marker would count, and its calls not."""
    place = Place()
    epoch = await place.open("e-1")
    await place.sessions.pause_invocation(KEY, invocation_id="e-1", epoch=epoch)
    runs: Any = SealsLate(place)
    await replace(place.rewinding, backend=runs).rewind(KEY, "e-1")
    assert await place.ids() == ["e-1.0", "busy.0", "end", "!"]
    await runs.sealing


async def test_nothing_is_cancelled_for_an_unknown_place() -> None:
    """REW-4: the invocation that waits keeps waiting."""
    place = Place()
    epoch = await place.open("e-1")
    await place.sessions.pause_invocation(KEY, invocation_id="e-1", epoch=epoch)
    with pytest.raises(InvocationNotFoundError):
        await place.rewinding.rewind(KEY, "nope")
    record = await place.sessions.get_invocation(KEY, "e-1")
    assert record
    assert record.status is Status.PAUSED
