"""When an attempt sends heartbeats, each of which is billed."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import timedelta

from temporalio.testing import ActivityEnvironment

from durable_adk.activities.heartbeats import HEARTBEAT_SHARE, Cancellations, heartbeating
from durable_adk.attempt_history import AttemptHistory
from durable_adk.events import Event
from durable_adk.sessions import InMemorySessionService, SessionKey
from durable_adk.settings import Limits
from tests.support.scripts import USER
from tests.support.waiting import until

HISTORY = AttemptHistory(reported=((1, 1),))
USER_ID = {"user_id": USER["user_id"]}


async def beats_of(
    body: Callable[[list[float]], Awaitable[None]],
    *,
    timeout: float,  # noqa: ASYNC109  # the server's
    cancels: Cancellations | None = None,
) -> None:
    """Run a body that sees when its attempt has sent heartbeats."""
    environment, beats = ActivityEnvironment(), list[float]()
    environment.info = replace(environment.info, heartbeat_timeout=timedelta(seconds=timeout))
    environment.on_heartbeat = lambda *_: beats.append(time.monotonic())

    async def attempt() -> None:
        async with heartbeating(HISTORY, cancels=cancels):
            await body(beats)

    await environment.run(attempt)


async def test_a_minutes_call_sends_eight_heartbeats_at_most() -> None:
    """D19: by default; at another timeout they are as far apart in proportion."""
    limit = 0.5
    assert 60 / (Limits().heartbeat_timeout * HEARTBEAT_SHARE) <= 8
    began = time.monotonic()

    async def body(beats: list[float]) -> None:
        await until(lambda: len(beats) == 4)
        assert beats[-1] - began >= 4 * limit * HEARTBEAT_SHARE

    await beats_of(body, timeout=limit)


async def test_a_notice_sends_one_at_once_and_an_event_none() -> None:
    """CAN-3, D19: the reply to it has the cancellation, however rare the others are."""
    sessions = InMemorySessionService()
    session = await sessions.create_session(app_name="app", session_id="s", **USER_ID)
    key = SessionKey("app", USER_ID["user_id"], "s")

    async def body(beats: list[float]) -> None:
        await sessions.append_event(session, Event(author="user"))
        assert await sessions.note_cancellation(key)
        await until(lambda: beats)
        noticed = asyncio.Event()
        following = asyncio.create_task(Cancellations(sessions, key).follow(noticed.set))
        await noticed.wait()
        await sessions.append_event(session, Event(author="user"))
        assert await sessions.note_cancellation(key)
        await until(lambda: len(beats) == 2)
        following.cancel()

    await beats_of(body, timeout=1e6, cancels=Cancellations(sessions, key))
