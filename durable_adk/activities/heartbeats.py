"""An attempt's heartbeats: some regular ones, and one as soon as a cancellation is noticed."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

from temporalio import activity

from durable_adk.attempt_history import NO_ATTEMPTS, AttemptHistory
from durable_adk.calling.closing import uninterrupted
from durable_adk.errors import DurableAdkError
from durable_adk.log import get_logger
from durable_adk.sessions.session import SessionKey
from durable_adk.sessions.session_log import SessionLog

T = TypeVar("T")
HEARTBEAT_SHARE = 0.4
"""Share of the heartbeat timeout after which a heartbeat is sent: one may be late, or be lost."""
UNWATCHED = 0.5
"""Seconds before an attempt watches its session for cancellations, so that short ones read nothing
for it."""
_LONGEST_WATCH = 60.0
_RETRY = 2.0

logger = get_logger(__name__)


@dataclass(frozen=True)
class Cancellations:
    """Notices in the session store that steps of a session were cancelled."""

    sessions: SessionLog
    key: SessionKey

    async def follow(self, noticed: Callable[[], None]) -> None:
        """Call `noticed` at each notice. It may be for another step of the session."""
        seen = 0  # as when the session's lease was taken
        with self.sessions.watch(self.key) as watch:
            while True:
                try:
                    head = await self.sessions.look(watch)
                    if head is not None and head.cancellations != seen:
                        seen = head.cancellations
                        noticed()
                    await self.sessions.changed(watch, timeout=_LONGEST_WATCH)
                except DurableAdkError as error:
                    logger.debug("cancellations.not_read", error_type=error.error_type)
                    await asyncio.sleep(_RETRY)


@asynccontextmanager
async def heartbeating(
    history: AttemptHistory = NO_ATTEMPTS,
    *,
    leaving: AttemptHistory | None = None,
    cancels: Cancellations | None = None,
) -> AsyncGenerator[None]:
    """Send heartbeats while the body runs; the replies deliver cancellations to it (D11).

    A heartbeat is a billed action, so there are few, and one more when a reply may have news.

    Args:
        history: Details for the next attempt if this one is lost. Each heartbeat replaces the
            details of earlier ones.
        leaving: Details to send once the worker shuts down: code that cannot be cancelled is lost
            with the worker, which is no evidence against the code.
        cancels: Notices after which a heartbeat is sent at once.
    """
    timeout = activity.info().heartbeat_timeout
    if timeout is None:
        yield
        return

    def beat() -> None:
        reported = leaving if leaving is not None and activity.is_worker_shutdown() else history
        try:
            reported.send()
        except Exception as error:  # noqa: BLE001 - the next one may succeed
            logger.warning("heartbeat.not_sent", error_type=type(error).__name__)

    beating = asyncio.create_task(_beat(timeout.total_seconds() * HEARTBEAT_SHARE, beat, cancels))
    try:
        yield
    finally:
        beating.cancel()


async def _beat(interval: float, beat: Callable[[], None], cancels: Cancellations | None) -> None:
    async def regularly() -> None:
        while True:
            await asyncio.sleep(interval)
            beat()

    async def at_shutdown() -> None:
        await activity.wait_for_worker_shutdown()
        beat()

    await asyncio.sleep(min(UNWATCHED, interval))
    async with asyncio.TaskGroup() as group:
        group.create_task(regularly())
        group.create_task(at_shutdown())
        if cancels is not None:
            group.create_task(cancels.follow(beat))


async def run_to_completion(work: Coroutine[Any, Any, T]) -> T:
    """Finish a store operation despite cancellation, because its result must be known."""
    async with heartbeating():
        return await uninterrupted(work)
