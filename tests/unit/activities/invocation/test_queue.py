"""Where those wait who find their session busy, and how often they ask."""

import asyncio
from typing import Any

import pytest
from temporalio.testing import ActivityEnvironment

from durable_adk.activities.attempt import MAX_BUSY_DELAY, busy_delay
from durable_adk.activities.dependencies import Dependencies
from durable_adk.activities.invocation import queue
from durable_adk.activities.invocation.queue import IN_PLACE_TICKETS, InPlaceWaits
from durable_adk.apps import AppRegistry
from durable_adk.errors import SessionBusyError
from durable_adk.events import Event
from durable_adk.sessions import InMemorySessionService, InvocationRecord, SessionKey, Status
from durable_adk.sessions.log.pause import RESUMING_TTL
from durable_adk.wire.steps import AnswerStep
from tests.support.waiting import PATIENCE, until
from tests.unit.sessions.contract import NEVER, only_changes_wake, watched

KEY = SessionKey("app", "u", "s")


@pytest.mark.parametrize("running", [0.5, 5.0, 60.0])
def test_all_who_wait_for_one_session_ask_some_times_a_second_together(running: float) -> None:
    """I22: however many they are, and however long the active one runs."""
    delays = [
        busy_delay(SessionBusyError(ahead=ahead, remaining=running + ahead * 0.2))
        for ahead in range(4, 200)
    ]
    assert sum(1 / delay for delay in delays) < 40
    assert delays == sorted(delays)


def test_no_delay_outlasts_the_quick_turns_ahead() -> None:
    """I22: a sleeping attempt is not overtaken, so the session is idle while it sleeps too long.

    A message takes its turn in a tenth of a second at best, and then the session is its own.
    """
    long = [busy_delay(SessionBusyError(ahead=ahead, remaining=600.0)) for ahead in range(200)]
    assert max(long[IN_PLACE_TICKETS:13]) <= 1.25
    assert all(
        delay <= 0.2 * ahead
        for ahead, delay in enumerate(long[IN_PLACE_TICKETS:], IN_PLACE_TICKETS)
    )


def test_a_delay_has_bounds() -> None:
    """Who is next is retried soon, and a resumption before its ticket would expire."""
    assert busy_delay(SessionBusyError()) == 0.25
    assert busy_delay(SessionBusyError(ahead=1000, remaining=1e9)) == MAX_BUSY_DELAY
    assert MAX_BUSY_DELAY < RESUMING_TTL / 2


class Attempts:
    """A paused invocation that wants its lease again, which another one has."""

    def __init__(self, max_in_place: int) -> None:
        self.sessions = InMemorySessionService()
        self.deps = Dependencies(
            registry=AppRegistry([]), sessions=self.sessions, max_in_place=max_in_place
        )
        self.in_place = InPlaceWaits()
        self.tries = 0
        self.ahead = 0

    async def begin(self) -> None:
        """Pause the one, and open the other."""
        one = await self._open("one")
        await self.sessions.pause_invocation(KEY, invocation_id="one", epoch=one.epoch)
        self.other = await self._open("other")

    async def give_back(self) -> None:
        """End the other one."""
        await self.sessions.close_invocation(
            KEY, invocation_id="other", epoch=self.other.epoch, status=Status.COMPLETED
        )

    async def attempt(self) -> InvocationRecord:
        """One attempt of the activity."""
        step: Any = AnswerStep.model_construct(key=KEY, invocation_id="one", lease_owner="local:1")
        run = self.in_place.attempt
        return await ActivityEnvironment().run(run, self.deps, self._take_lease, step)

    async def _take_lease(self, step: AnswerStep) -> InvocationRecord:
        self.tries += 1
        try:
            return await self.sessions.resume_invocation(
                step.key, invocation_id="one", lease_owner=step.lease_owner, user_event=None
            )
        except SessionBusyError as busy:
            busy.ahead = self.ahead
            raise

    async def _open(self, name: str) -> InvocationRecord:
        message = Event(id=f"{name}.0", invocation_id=name, author="user", timestamp=1.0)
        return await self.sessions.open_invocation(
            KEY, invocation_id=name, lease_owner="local:1", user_event=message, create_session=True
        )


async def test_who_is_next_hears_at_once_that_the_session_is_free(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """I22: in one attempt, of which the engine is asked for nothing meanwhile."""
    only_changes_wake(monkeypatch)
    monkeypatch.setattr(queue, "LOOK", NEVER)
    attempts = Attempts(max_in_place=1)
    await attempts.begin()
    run = asyncio.create_task(attempts.attempt())
    await watched(attempts.sessions)
    assert attempts.tries == 1
    await attempts.give_back()
    assert (await asyncio.wait_for(run, PATIENCE)).status is Status.RUNNING


async def test_who_is_not_next_waits_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """I22: there may be any number of them."""
    monkeypatch.setattr(queue, "IN_PLACE_TIMEOUT", NEVER)
    attempts = Attempts(max_in_place=1)
    attempts.ahead = IN_PLACE_TICKETS
    await attempts.begin()
    run = asyncio.create_task(attempts.attempt())
    await until(lambda: run.done() or attempts.in_place._count)
    assert run.done(), "it waits here"
    with pytest.raises(SessionBusyError):
        await run


async def test_a_worker_has_only_so_many_attempts_that_wait(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """I22: the others of its places are for those who work."""
    monkeypatch.setattr(queue, "IN_PLACE_TIMEOUT", NEVER)
    attempts = Attempts(max_in_place=2)
    await attempts.begin()
    runs = [asyncio.create_task(attempts.attempt()) for _ in range(2)]
    await until(lambda: attempts.in_place._count == 2)
    one_more = asyncio.create_task(attempts.attempt())
    await until(lambda: one_more.done() or attempts.in_place._count == 3)
    assert one_more.done(), "it waits here, too"
    with pytest.raises(SessionBusyError):
        await one_more
    await attempts.give_back()
    assert {record.status for record in await asyncio.gather(*runs)} == {Status.RUNNING}
