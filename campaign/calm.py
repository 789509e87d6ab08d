"""What clients do when the faults are over: they cancel at any moment, and send everything thrice.

Under faults nobody can say how long a cancellation may take. Here nothing else goes wrong (I15).
"""

import asyncio
import contextlib
import random
import time
from collections.abc import AsyncGenerator, Iterable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from itertools import count, islice
from typing import Any

from temporalio.client import Client

from campaign.apps import make_apps
from campaign.checks.calm import USER
from campaign.checks.clients import AFTERMATH
from campaign.journals import RunFolder
from campaign.stores import shared
from campaign.turns import UNKNOWN, Player
from campaign.worker_main import QUEUE
from campaign.workload import NAP, SLOW, Turn
from campaign.world import World
from durable_adk.errors import DurableAdkError
from durable_adk.runners import Runner
from durable_adk.sessions import DatabaseSessionService

CANCELLED = 12
"""Invocations that are cancelled."""
MOMENTS = (0.1, NAP + 0.2)
"""Seconds after which they are; undisturbed they would take somewhat longer."""
AT_ONCE = 3
"""Of them run at a time, and nothing beside them: what is measured is not our own load."""
TIMES = 3
"""How often each message, answer and cancellation is sent at once (F26)."""
SENT_AGAIN = ("plain", "approval")
"""Apps that get each message several times."""
PATIENCE = 60.0
"""Seconds for all; what has no outcome then is noticed as such (I11)."""


@dataclass(frozen=True)
class _Cancelling(Player):
    """A client that cancels what it has sent, in its own time."""

    async def cancel(self, turn: Turn, attempt: int) -> None:
        """Cancel, and note what is said to it."""
        self._note(turn, "cancel", "invoke", attempt)
        with contextlib.suppress(*UNKNOWN, DurableAdkError):
            reached = await self.runner.cancel(
                user_id=turn.user, session_id=turn.session, invocation_id=turn.invocation
            )
            self._note(turn, "cancel", "ok", attempt, reached=reached)


async def calm(world: World, client: Client, healed: float) -> None:
    """Do all of it, once the last fault can have no effect any more."""
    await asyncio.sleep(max(0.0, healed + AFTERMATH - time.time()))
    async with visiting(world, client, (SLOW, *SENT_AGAIN)) as runners:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(PATIENCE):
                await _all(world, runners)


@asynccontextmanager
async def visiting(
    world: World, client: Client, names: Iterable[str]
) -> AsyncGenerator[dict[str, Runner]]:
    """Runners of some apps in this process, which no fault is done to."""
    service = DatabaseSessionService(world.url())
    apps = make_apps(world.folder.path)
    options: dict[str, Any] = {"client": client, "task_queue": QUEUE}
    try:
        async with shared(world.folder, service, world.url()) as stores:
            yield {
                name: Runner(
                    app=apps[name], auto_create_session=True, **options, **stores.arguments()
                )
                for name in names
            }
    finally:
        await service.close()


async def _all(world: World, runners: dict[str, Runner]) -> None:
    dice = random.Random(f"{world.seed}/calm")  # noqa: S311 - dice are no secrets
    player = _Cancelling(runners[SLOW], world.folder.journal(USER))
    some = asyncio.Semaphore(AT_ONCE)
    async with asyncio.TaskGroup() as group:
        for number, turn in enumerate(islice(_slow(), CANCELLED)):
            times = 1 if number % 2 else TIMES
            if number % 4 < 2:  # the others create their sessions themselves
                await player.runner.session_service.create_session(
                    app_name=turn.app, user_id=turn.user, session_id=turn.session
                )
            group.create_task(_cancelled(player, turn, dice.uniform(*MOMENTS), times, some))
    async with asyncio.TaskGroup() as group:
        for app in SENT_AGAIN:
            group.create_task(_sent_again(world.folder, runners[app], world.shape.turns))


def _slow() -> Iterator[Turn]:
    """Turns that `Player` does not cancel by itself, each in a session of its own."""
    turns = (Turn(SLOW, USER, f"{SLOW}-{USER}-{number}", 1) for number in count())
    return (turn for turn in turns if turn.cancelled_after is None)


async def _cancelled(
    player: _Cancelling, turn: Turn, after: float, times: int, some: asyncio.Semaphore
) -> None:
    """Play a turn, cancel it, and cancel it again when it has ended."""
    async with some:
        playing = asyncio.create_task(player.play(turn))
        await asyncio.sleep(after)
        await asyncio.gather(*(player.cancel(turn, number) for number in range(times)))
        await playing
        await player.cancel(turn, times)


async def _sent_again(folder: RunFolder, runner: Runner, turns: int) -> None:
    """Play a session as several clients at once, which send the same under the same ids.

    The first of them keeps a journal like every client; those of the others are apart, as each
    tells of the same invocations.
    """
    app = runner.app_name
    journals = [folder.journal(USER), *(folder.repeat(f"{app}-{n}") for n in range(1, TIMES))]
    for number in range(1, turns + 1):
        turn = Turn(app, USER, f"{app}-{USER}", number)
        await asyncio.gather(*(Player(runner, journal).play(turn) for journal in journals))
