"""Client actions after the last fault: cancellations, repeated messages, a crowded session.

Under faults a cancellation, or another user's turn, may have waited for any of them. Here
nothing else goes wrong (I15, I22). Everything waits for states: a slow machine takes longer.
"""

import asyncio
import contextlib
import random
import signal
import time
from collections.abc import AsyncGenerator, Awaitable, Iterable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from itertools import count, cycle, islice
from pathlib import Path
from typing import Any

from google.genai import types
from temporalio.client import Client

from campaign.apps import make_apps
from campaign.checks.after_faults import ALONE, BESIDE, NEIGHBOUR, USER
from campaign.checks.clients import AFTERMATH
from campaign.cluster import Cluster, until
from campaign.patience import until_idle
from campaign.player import UNKNOWN, Player
from campaign.run_folder import RunFolder
from campaign.stores import shared
from campaign.worker_main import QUEUE
from campaign.workload import BURST, CROWD, DENIED, FOR_EVER, NAP, SLOW, Turn
from durable_adk.errors import DurableAdkError
from durable_adk.runners import Runner
from durable_adk.sessions import DatabaseSessionService
from harness.journal import notes

CANCELLED, RACING = 12, 4
"""Invocations that are cancelled: those that would never end by themselves, and others."""
MOMENTS = (0.1, NAP + 0.2)
"""Seconds after which the others are; undisturbed they would take somewhat longer."""
AT_ONCE = 3
"""Of them run at a time, and nothing beside them: what is measured is not our own load."""
TIMES = 3
"""How often each message, answer and cancellation is sent at once (F26)."""
SENT_AGAIN = ("plain", "approval")
"""Apps that get each message several times."""
MEASURED = 20
"""Turns of the neighbour alone, and as many beside a crowd."""
QUIET_APP, QUIET_TURNS = "plain", 2
"""What the neighbour plays, and for how many turns in a session."""
DEPLOYS, ASKED = 2, 8
"""How often all workers are replaced while so many calls wait to be denied."""
AGAIN = 6
"""How often at most, until one of them has come back to a release without approvals."""
PAUSE = 0.1
"""Seconds between two looks at a state, and between two tries to cancel."""
QUIET = 60.0
"""Seconds for which workers may stand still before they are replaced."""
PATIENCE = 500.0
"""Seconds for each kind of actions; a message without an outcome by then is a violation (I11).
Fewer than the timeout of a tool, which would end what a cancellation has not."""


@dataclass(frozen=True)
class _Cancelling(Player):
    """A client that cancels its own messages."""

    async def cancel(self, turn: Turn, attempt: int) -> bool:
        """Cancel, and write down the reply; whether it has reached the invocation."""
        self._note(turn, "cancel", "invoke", attempt)
        with contextlib.suppress(*UNKNOWN, DurableAdkError):
            reached = await self.runner.cancel(
                user_id=turn.user, session_id=turn.session, invocation_id=turn.invocation
            )
            self._note(turn, "cancel", "ok", attempt, reached=reached)
            return reached
        return False


async def act_after_faults(cluster: Cluster, client: Client, healed: float) -> None:
    """Run all actions, once the last fault can have no effect any more."""
    await asyncio.sleep(max(0.0, healed + AFTERMATH - time.time()))
    async with local_runners(cluster, client, (SLOW, CROWD, DENIED, *SENT_AGAIN)) as runners:
        for actions in (_cancellations, _repeats, _crowded, _denied):
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(PATIENCE):
                    await actions(cluster, runners)


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


async def _cancellations(cluster: Cluster, runners: dict[str, Runner]) -> None:
    """Cancel invocations at the moments that matter, and some at any moment."""
    dice = random.Random(f"{cluster.seed}/calm")  # noqa: S311 - dice are no secrets
    player = _Cancelling(runners[SLOW], cluster.folder.journal(USER))
    some, moments = asyncio.Semaphore(AT_ONCE), cycle((_at_once, _once_seen, _once_begun))
    endless, racing = islice(_slow(FOR_EVER), CANCELLED), islice(_slow(f"{SLOW}-{USER}-"), RACING)
    async with asyncio.TaskGroup() as group:
        for number, turn in enumerate((*endless, *racing)):
            times = 1 if number % 2 else TIMES
            if number % 4 < 2:  # the others create their sessions themselves
                await player.runner.session_service.create_session(
                    app_name=turn.app, user_id=turn.user, session_id=turn.session
                )
            after = dice.uniform(*MOMENTS)
            moment = next(moments)(cluster.folder, turn) if number < CANCELLED else None
            group.create_task(_cancelled(player, turn, moment or asyncio.sleep(after), times, some))


async def _at_once(_: RunFolder, turn: Turn) -> None:
    """The moment at which it is sent."""


async def _once_seen(folder: RunFolder, turn: Turn) -> None:
    """The moment at which its client has seen an event."""
    await _until_noted(folder.journal(USER), turn, type="event")


async def _once_begun(folder: RunFolder, turn: Turn) -> None:
    """The moment at which its tool has begun."""
    await _until_noted(folder.ledger, turn, phase="begun")


async def _until_noted(path: Path, turn: Turn, **fields: str) -> None:
    wanted = {"invocation": turn.invocation, **fields}.items()
    await until(lambda: any(wanted <= line.items() for line in notes(path)), PATIENCE)


async def _repeats(cluster: Cluster, runners: dict[str, Runner]) -> None:
    """Send messages several times at once."""
    async with asyncio.TaskGroup() as group:
        for app in SENT_AGAIN:
            group.create_task(_sent_again(cluster.folder, runners[app], cluster.scale.turns))


@dataclass(frozen=True)
class Hesitating(Player):
    """A client that answers only after an event is set."""

    let: asyncio.Event
    asked: set[Turn]
    """The turns that have come so far."""

    async def _pending(self, turn: Turn) -> types.FunctionResponse | None:
        self.asked.add(turn)
        await self.let.wait()
        return await super()._pending(turn)


async def _denied(cluster: Cluster, runners: dict[str, Runner]) -> None:
    """Have calls denied that have waited while all workers were replaced.

    Each is of the other release than the one that started before it, so there are both of them,
    and what one has asked about is refused by the other (I16). Which worker is given which call is
    the engine's choice, so it is done until that has happened.
    """
    if not cluster.scale.everything:
        return
    for deploy in range(AGAIN):
        if deploy >= DEPLOYS and _was_denied_elsewhere(cluster.folder):
            return
        let, asked = asyncio.Event(), set[Turn]()
        player = Hesitating(runners[DENIED], cluster.folder.journal(USER), let, asked)
        sessions = (f"{DENIED}-{USER}-{deploy}-{number}" for number in range(ASKED))
        turns = [Turn(DENIED, USER, session, 1) for session in sessions]
        playing = [asyncio.create_task(player.play(turn)) for turn in turns]
        await until(lambda: len(asked) == ASKED, PATIENCE)  # noqa: B023 - used at once
        old = {worker.pid for worker in cluster.workers}
        await until_idle(cluster.folder, old, QUIET)
        for worker in cluster.workers:
            if worker.process is not None:
                worker.process.send_signal(signal.SIGTERM)
        await until(
            lambda: all(one.alive and one.pid not in old for one in cluster.workers),  # noqa: B023 - used at once
            PATIENCE,
        )
        let.set()
        await asyncio.gather(*playing)


def _was_denied_elsewhere(folder: RunFolder) -> bool:
    """Whether a call of the calm was decided on a worker whose release has no approvals."""
    later = {line["pid"] for line in notes(folder.starts) if (line["release"] or 0) > 1}
    return any(
        line["pid"] in later and str(line.get("decided", "")).startswith(f"{DENIED}-{USER}-")
        for line in notes(folder.tasks)
    )


async def _crowded(cluster: Cluster, runners: dict[str, Runner]) -> None:
    """Play a quiet user's turns alone, then as many while another session is crowded."""
    if not cluster.scale.everything:
        return
    journal = cluster.folder.journal(USER)
    crowd, quiet = Player(runners[CROWD], journal), Player(runners[QUIET_APP], journal)
    await _quiet(quiet, ALONE)
    over, numbers = asyncio.Event(), count(BURST + 1)
    first = [Turn(CROWD, USER, f"{CROWD}-{USER}-0", place + 1) for place in range(BURST)]

    async def send(turn: Turn) -> None:
        # Each that is answered is followed by another one, so the crowd is there until the end.
        while await crowd.play(turn) == "ok" and not over.is_set():
            turn = turn._replace(number=next(numbers))

    crowding = [asyncio.create_task(send(turn)) for turn in first]
    # A full queue refuses at once: by then all have come.
    await until(lambda: any(one.done() for one in crowding), PATIENCE)
    await _quiet(quiet, BESIDE)
    over.set()
    await asyncio.gather(*crowding)


async def _quiet(player: Player, name: str) -> None:
    """Play a session after the other, of as many turns as the control has."""
    for number in range(MEASURED):
        session, turn = divmod(number, QUIET_TURNS)
        await player.play(Turn(QUIET_APP, NEIGHBOUR, f"{QUIET_APP}-{name}-{session}", turn + 1))


def _slow(prefix: str) -> Iterator[Turn]:
    """Turns that `Player` does not cancel by itself, each in a session of its own."""
    turns = (Turn(SLOW, USER, f"{prefix}{number}", 1) for number in count())
    return (turn for turn in turns if turn.cancelled_after is None)


async def _cancelled(
    player: _Cancelling,
    turn: Turn,
    moment: Awaitable[None],
    times: int,
    some: asyncio.Semaphore,
) -> None:
    """Play a turn, cancel it until that has reached it, and once more when it has ended."""
    async with some:
        numbers = count()
        playing = asyncio.create_task(player.play(turn))
        await moment
        while not playing.done():
            tries = (player.cancel(turn, next(numbers)) for _ in range(times))
            if any(await asyncio.gather(*tries)):
                break
            await asyncio.sleep(PAUSE)  # it may not have been accepted yet
        await playing
        await player.cancel(turn, next(numbers))


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
