"""Client actions after the last fault: cancellations, repeated messages, a crowded session.

Under faults there is no bound for the time of a cancellation or of another user's turn. Here
nothing else goes wrong (I15, I22).
"""

import asyncio
import contextlib
import random
import signal
import time
from collections.abc import AsyncGenerator, Iterable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from itertools import count, islice
from typing import Any

from google.genai import types
from temporalio.client import Client

from campaign.apps import make_apps
from campaign.checks.after_faults import ALONE, BESIDE, NEIGHBOUR, USER, is_slowed
from campaign.checks.clients import AFTERMATH
from campaign.cluster import Cluster, until
from campaign.player import UNKNOWN, Player
from campaign.run_folder import RunFolder
from campaign.stores import shared
from campaign.worker_main import QUEUE
from campaign.workload import BURST, CROWD, DENIED, NAP, SLOW, Turn
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
MEASURED, ROUNDS = 20, 3
"""Turns of the neighbour alone, and as many beside a crowd; and how often that is measured."""
GATHERING = 1.5
"""Seconds in which the messages of a crowd have come."""
QUIET_APP, QUIET_TURNS = "plain", 2
"""What the neighbour plays, and for how many turns in a session."""
ASKING = 1.0
"""Seconds in which calls have been asked about."""
DEPLOYS, ASKED = 2, 8
"""How often all workers are replaced while so many calls wait to be denied."""
PATIENCE = 150.0
"""Seconds for all actions; a message without an outcome by then is a violation (I11)."""


@dataclass(frozen=True)
class _Cancelling(Player):
    """A client that cancels its own messages."""

    async def cancel(self, turn: Turn, attempt: int) -> None:
        """Cancel, and write down the reply."""
        self._note(turn, "cancel", "invoke", attempt)
        with contextlib.suppress(*UNKNOWN, DurableAdkError):
            reached = await self.runner.cancel(
                user_id=turn.user, session_id=turn.session, invocation_id=turn.invocation
            )
            self._note(turn, "cancel", "ok", attempt, reached=reached)


async def act_after_faults(cluster: Cluster, client: Client, healed: float) -> None:
    """Run all actions, once the last fault can have no effect any more."""
    await asyncio.sleep(max(0.0, healed + AFTERMATH - time.time()))
    async with local_runners(cluster, client, (SLOW, CROWD, DENIED, *SENT_AGAIN)) as runners:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(PATIENCE):
                await _all(cluster, runners)


@asynccontextmanager
async def local_runners(
    cluster: Cluster, client: Client, names: Iterable[str]
) -> AsyncGenerator[dict[str, Runner]]:
    """Runners of some apps in this process, which no fault touches."""
    service = DatabaseSessionService(cluster.url())
    apps = make_apps(cluster.folder.path)
    options: dict[str, Any] = {"client": client, "task_queue": QUEUE}
    try:
        async with shared(cluster.folder, service, cluster.url()) as stores:
            yield {
                name: Runner(
                    app=apps[name], auto_create_session=True, **options, **stores.arguments()
                )
                for name in names
            }
    finally:
        await service.close()


async def _all(cluster: Cluster, runners: dict[str, Runner]) -> None:
    dice = random.Random(f"{cluster.seed}/calm")  # noqa: S311 - dice are no secrets
    player = _Cancelling(runners[SLOW], cluster.folder.journal(USER))
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
            group.create_task(_sent_again(cluster.folder, runners[app], cluster.scale.turns))
    if cluster.scale.everything:
        journal = cluster.folder.journal(USER)
        await _crowded(Player(runners[CROWD], journal), Player(runners[QUIET_APP], journal))
        await _denied(cluster, runners[DENIED])


@dataclass(frozen=True)
class _Hesitating(Player):
    """A client that answers only after an event is set."""

    let: asyncio.Event

    async def _pending(self, turn: Turn) -> types.FunctionResponse | None:
        await self.let.wait()
        return await super()._pending(turn)


async def _denied(cluster: Cluster, runner: Runner) -> None:
    """Have calls denied that have waited while all workers were replaced.

    Each is of the other release than the one that started before it, so there are both of them,
    and what one has asked about is refused by the other (I16).
    """
    for deploy in range(DEPLOYS):
        player = _Hesitating(runner, cluster.folder.journal(USER), asyncio.Event())
        sessions = (f"{DENIED}-{USER}-{deploy}-{number}" for number in range(ASKED))
        turns = [Turn(DENIED, USER, session, 1) for session in sessions]
        playing = [asyncio.create_task(player.play(turn)) for turn in turns]
        await asyncio.sleep(ASKING)
        old = {worker.pid for worker in cluster.workers}
        for worker in cluster.workers:
            if worker.process is not None:
                worker.process.send_signal(signal.SIGTERM)
        await until(lambda: all(one.alive and one.pid not in old for one in cluster.workers))  # noqa: B023 - used at once
        player.let.set()
        await asyncio.gather(*playing)


async def _crowded(crowd: Player, quiet: Player) -> None:
    """Play a quiet user's turns alone, then as many while another session is crowded."""
    for number in range(ROUNDS):
        alone = await _quiet(quiet, f"{ALONE}-{number}")
        session = f"{CROWD}-{USER}-{number}"
        turns = [Turn(CROWD, USER, session, place + 1) for place in range(BURST)]
        crowding = asyncio.gather(*map(crowd.play, turns))
        await asyncio.sleep(GATHERING)
        beside = await _quiet(quiet, f"{BESIDE}-{number}")
        await crowding
        if not is_slowed(alone, beside):
            return


async def _quiet(player: Player, name: str) -> list[float]:
    """A session after the other, of as many turns as the control has; seconds that each took."""
    times: list[float] = []
    for number in range(MEASURED):
        session, turn = divmod(number, QUIET_TURNS)
        began = time.monotonic()
        await player.play(Turn(QUIET_APP, NEIGHBOUR, f"{QUIET_APP}-{name}-{session}", turn + 1))
        times.append(time.monotonic() - began)
    return times


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
    """Play a session as several clients at once, which send the same messages under the same ids.

    The first client keeps a journal like every client; the others have journals of their own,
    because they cover the same invocations.
    """
    app = runner.app_name
    journals = [folder.journal(USER), *(folder.repeat(f"{app}-{n}") for n in range(1, TIMES))]
    for number in range(1, turns + 1):
        turn = Turn(app, USER, f"{app}-{USER}", number)
        await asyncio.gather(*(Player(runner, journal).play(turn) for journal in journals))
