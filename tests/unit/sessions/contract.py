"""What the tests of the session contract do again and again."""

import asyncio

from google.genai import types

from durable_adk.events import Event, EventActions
from durable_adk.sessions import Status
from durable_adk.sessions.log import feed
from durable_adk.sessions.sql import postgres
from durable_adk.sessions.sql.postgres import CommitNotifications
from tests.support.waiting import PATIENCE, until


def event(event_id, invocation_id="i1", *, delta=None, timestamp=1.0, text="hello", **fields):
    """An event of the invocation."""
    return Event(
        id=event_id,
        invocation_id=invocation_id,
        author="agent",
        timestamp=timestamp,
        content=types.Content(role="model", parts=[types.Part(text=text)]),
        actions=EventActions(state_delta=delta or {}),
        **fields,
    )


async def opened(service, key, invocation_id="i1", **options):
    """Open an invocation the way the loop does."""
    options = {"create_session": True, "lease_owner": "local:1", **options}
    user_event = options.pop("user_event", event(f"{invocation_id}/user", invocation_id))
    return await service.open_invocation(
        key, invocation_id=invocation_id, user_event=user_event, **options
    )


async def paused(service, key, invocation_id="i1", **options):
    """Open an invocation and pause it."""
    record = await opened(service, key, invocation_id, **options)
    return await service.pause_invocation(key, invocation_id=invocation_id, epoch=record.epoch)


async def resumed(service, key, answer="a", invocation_id="i1", **options):
    """Answer a paused invocation; with None only take its lease."""
    options = {"lease_owner": "local:2", **options}
    user_event = answer and event(answer, invocation_id)
    user_event = options.pop("user_event", user_event)
    return await service.resume_invocation(
        key, invocation_id=invocation_id, user_event=user_event, **options
    )


async def abandon(service, key, invocation_id="i1", epoch=1):
    """Take a session over from a lease owner that is gone."""
    return await service.close_invocation(
        key, invocation_id=invocation_id, epoch=epoch, status=Status.ABANDONED
    )


def names(key):
    """The key as keyword arguments."""
    return key._asdict()


async def log(service, key):
    """The events' numbers and ids, in order."""
    return [(stored.seq, stored.event.id) for stored in await service.read_events(key)]


NEVER = 1000.0
"""Seconds after which a wait ends by itself, in tests in which it must not."""


def only_changes_wake(monkeypatch):
    """Have no wait end but by a change: neither by itself, nor because it looks again."""
    monkeypatch.setattr(feed, "_LONGEST_WAIT", NEVER)
    monkeypatch.setattr(postgres, "_PATIENCE", NEVER)
    monkeypatch.setattr(postgres, "_LONG_PATIENCE", NEVER)


async def waiter(service, key):
    """A task that waits for a change of a session that has one event."""
    waiting = asyncio.create_task(service.wait_for_change(key, after=1, timeout=NEVER))
    await watched(service)
    await settled(service)
    assert not waiting.done()
    return waiting


async def watched(service):
    """Wait until somebody has looked at a session of a service, and waits for its change."""
    await until(lambda: any(watch._looked for watch in service._changes.current()))


async def ended(waiting):
    """Wait for the end of a `waiter`."""
    await asyncio.wait_for(waiting, PATIENCE)


async def settled(service):
    """Wait until what wakes the watches of a store runs, and has compared each of them once."""
    news = getattr(service, "_news", None)
    if isinstance(news, CommitNotifications):
        await asyncio.wrap_future(news._listener.ready)
        await until(news._looking.done)
    elif news is not None:
        await until(lambda: not any(rounds.looked for rounds in news._rounds.values()))
