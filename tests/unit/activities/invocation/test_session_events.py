"""Which events of the store a page for clients in other languages reads."""

import asyncio
from typing import Any

import pytest
from temporalio.testing import ActivityEnvironment

from durable_adk.activities.dependencies import Dependencies
from durable_adk.activities.invocation.session_events import read_session_events
from durable_adk.agents import LlmAgent
from durable_adk.apps import App, AppRegistry
from durable_adk.events import Event
from durable_adk.models import ScriptedModel
from durable_adk.sessions import InMemorySessionService, SessionKey, Status
from durable_adk.sessions.records import StoredEvent
from durable_adk.wire.event_page import EventPage, ReadSessionEventsStep

KEY = SessionKey("app", "u", "s")
LENGTH = 4
"""Events of each invocation."""


class Sessions(InMemorySessionService):
    """A store that notes which events are read from it."""

    def __init__(self) -> None:
        super().__init__()
        self.read: list[int] = []

    async def read_events(self, *args: Any, **options: Any) -> list[StoredEvent]:
        """See base class."""
        found = await super().read_events(*args, **options)
        self.read += [one.seq for one in found]
        return found


async def add(sessions: Sessions, name: str, *, ends: bool = True) -> None:
    """Add an invocation with its events to the session."""
    events = [Event(id=f"{name}.{n}", invocation_id=name, author="a") for n in range(LENGTH)]
    record = await sessions.open_invocation(
        KEY, invocation_id=name, lease_owner="local:1", user_event=events[0], create_session=True
    )
    lease = {"invocation_id": name, "epoch": record.epoch}
    for event in events[1:]:
        await sessions.commit_event(KEY, event, **lease)
    if ends:
        await sessions.close_invocation(KEY, **lease, status=Status.COMPLETED)


async def page(sessions: Sessions, **request: Any) -> EventPage:
    """Read a page in an activity."""
    app = App(name="app", root_agent=LlmAgent(name="a", model=ScriptedModel(replies=[])))
    deps = Dependencies(registry=AppRegistry([app]), sessions=sessions, max_in_place=1)
    step = ReadSessionEventsStep(app="app", user="u", session="s", **request)
    sessions.read.clear()
    return await ActivityEnvironment().run(read_session_events, deps, step)


@pytest.mark.parametrize(("name", "first"), [("i1", 1), ("i2", 5), ("i3", 9)])
async def test_of_one_invocation_no_other_event_is_read(name: str, first: int) -> None:
    """However long the session is before and after it; its first and last event are there."""
    sessions, own = Sessions(), [*range(first, first + LENGTH)]
    for one in ("i1", "i2"):
        await add(sessions, one)
    await add(sessions, "i3", ends=False)
    found = await page(sessions, invocation_id=name)
    assert [one.seq for one in found.events] == sessions.read == own
    assert (found.next, found.complete) == (own[-1], name != "i3")
    rest = await page(sessions, invocation_id=name, after=first)
    assert [one.seq for one in rest.events] == sessions.read == own[1:]
    end = await page(sessions, invocation_id=name, after=own[-1])
    assert (end.events, end.next, sessions.read) == ([], own[-1], [])


async def test_a_page_that_waits_reads_no_event_twice() -> None:
    """It looks for the invocation's first event after those that were there already."""
    sessions = Sessions()
    await add(sessions, "i1")
    waiting = asyncio.create_task(page(sessions, invocation_id="i2", wait=20))
    while len(sessions.read) < LENGTH:
        await asyncio.sleep(0)
    await add(sessions, "i2", ends=False)
    found = await waiting
    assert {one.event.invocation_id for one in found.events if one.event} == {"i2"}
    assert len(sessions.read) == len(set(sessions.read))
