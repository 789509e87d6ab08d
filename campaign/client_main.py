"""A client of the campaign.

The spawner starts it with RUN_DIR, TEMPORAL, STORE, SLOT, SEED and SIZE. It plays several sessions
at a time until the run's folder says stop. Started again after its death
it goes on where its journal ends, with the turn whose outcome it does not know.
"""

import asyncio
import os
import random
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from itertools import count, islice
from pathlib import Path
from typing import Any

from temporalio.client import Client
from temporalio.service import RPCError

from campaign.access_probe import OWED, AccessProbe
from campaign.apps import make_apps
from campaign.player import PAUSE, Player
from campaign.run_folder import RunFolder
from campaign.scale import SCALES, Scale, Size
from campaign.session_deletion import PartialAnswerer, SessionDeleter
from campaign.stores import converter, shared
from campaign.worker_main import QUEUE
from campaign.workload import BURST, CLEARED, CROWD, DEALT, DENIED, SLOW, Turn, courses
from durable_adk.client import connect, workflow_id
from durable_adk.errors import InvocationTerminatedError, TemporalUnavailableError
from durable_adk.runners import Runner
from durable_adk.sessions import DatabaseSessionService, SessionKey
from harness.journal import Line, notes

BESIDE = ((CROWD, DENIED), (DENIED,))
"""The apps that clients play besides, by slot, a sequence for each; not in a crowd."""

QUERY_INTERVAL = 1.0
"""Seconds between two queries of a workflow."""
QUERY_TIMEOUT = timedelta(seconds=5)


@dataclass(frozen=True)
class SessionSequence:
    """One session after the other; which, and of which app, is the seed's choice."""

    slot: str
    seed: int
    number: int
    scale: Scale
    app: str | None = None
    """The only one of the sequence; None: those that it draws."""

    def groups(self) -> Iterator[list[Turn]]:
        """All turns, without end; those that are sent beside each other together."""
        turns = self._turns()
        if self.app == CROWD:
            while True:
                yield list(islice(turns, BURST))
        for turn in turns:
            yield [turn] if turn.competing_after is None else [turn, next(turns)]

    @property
    def owed(self) -> int:
        """How many groups are played in any case: on a busy machine a run is soon over."""
        return 1 if self.app else sum(turns for _, turns in self._dealt())

    def _turns(self) -> Iterator[Turn]:
        user, sequence = f"user-{self.slot}", f"{self.slot}-{self.number}"
        if self.app is not None:
            turns = BURST if self.app == CROWD else self.scale.turns
            for name in (f"{self.app}-{sequence}-{session}" for session in count()):
                yield from (Turn(self.app, user, name, turn + 1) for turn in range(turns))
        # One session for ever: what is terminated needs a next message.
        if self.number == 0 and self.scale.everything:
            yield from (Turn(SLOW, user, f"{SLOW}-{sequence}", turn) for turn in count(1))
        dice = random.Random(f"{self.seed}/{sequence}")  # noqa: S311 - dice are no secrets
        dealt = self._dealt()
        for session in islice(count(), self.scale.sessions):
            app, turns = dealt.pop(0) if dealt else (dice.choice(DEALT), self.scale.turns)
            name = f"{app}-{sequence}-{session}"
            yield from (Turn(app, user, name, turn) for turn in range(1, turns + 1))

    def _dealt(self) -> list[tuple[str, int]]:
        """Return the apps of its first sessions, with their turns; all sequences cover all apps."""
        if self.number == 0 or not self.scale.everything:
            return []
        deck = list(DEALT)
        random.Random(self.seed).shuffle(deck)  # noqa: S311 - dice are no secrets
        players = self.scale.sequences - 1
        place = int(self.slot) * players + self.number - 1
        own = deck[place :: players * self.scale.clients]
        # The one with the many turns last: the others are to have their turn in any case.
        return sorted(((app, courses(app, 1)) for app in own), key=lambda one: one[1])


class _Known:
    """What an earlier process of this client has sent, and what of it has an outcome."""

    def __init__(self, journal: list[Line]) -> None:
        runs = [line for line in journal if line["operation"] == "run"]
        self.sent = {line["invocation"] for line in runs}
        self.over = {
            line["invocation"]: str(line.get("error", "ok"))
            for line in runs
            if line["type"] in ("ok", "fail")
        }


async def main(  # noqa: PLR0917 - as the command line has them
    folder: RunFolder, address: str, store: str, slot: str, seed: int, scale: Scale
) -> None:
    """Play until the run's folder says stop."""
    journal = folder.journal(slot)
    known = _Known(notes(journal))
    service = DatabaseSessionService(store)
    async with shared(folder, service, store) as stores:
        options: dict[str, Any] = {"client": await _connected(address, folder), "task_queue": QUEUE}
        runners = {
            name: Runner(app=app, auto_create_session=True, **options, **stores.arguments())
            for name, app in make_apps(folder.path).items()
        }
        players = {name: Player(runner, journal) for name, runner in runners.items()}
        probe = AccessProbe(
            folder,
            slot,
            f"user-{slot}",
            runners,
            stores.artifact_service,
            stores.memory_service,
            options["client"],
        )
        over = asyncio.Event()
        probing = asyncio.create_task(probe.run(over, owed=OWED if scale.everything else 0))
        async with asyncio.TaskGroup() as group:
            besides = BESIDE[int(slot) % len(BESIDE)] if scale.everything else ()
            for number, app in enumerate((*[None] * scale.sequences, *besides)):
                sequence = SessionSequence(slot, seed, number, scale, app)
                group.create_task(_play(sequence, players, known, folder.stop, options["client"]))
            if scale.everything and not _is_there(folder.restores):
                deleter = SessionDeleter(
                    folder, slot, PartialAnswerer(runners[CLEARED], journal), folder.stop
                )
                group.create_task(deleter.go_on(notes(journal)))
        over.set()
        await probing
    # Not by the usual way: a client's connection may abort the process at exit.
    os._exit(0)


async def _play(
    sequence: SessionSequence,
    players: dict[str, Player],
    known: _Known,
    stop: Path,
    client: Client,
) -> None:
    outcomes: set[str] = set()
    for number, group in enumerate(sequence.groups()):
        left = [turn for turn in group if turn.invocation not in known.over]
        # A terminated invocation is ended by its session's next message, so there must be one.
        owed = (
            number < sequence.owed
            or InvocationTerminatedError.__name__ in outcomes
            or any(turn.invocation in known.sent for turn in left)
        )
        if left and not owed and _is_there(stop):
            return
        outcomes = {known.over[turn.invocation] for turn in group if turn not in left}
        queries = [asyncio.create_task(_query_repeatedly(client, turn)) for turn in left[:1]]
        outcomes |= set(await asyncio.gather(*(_after(players, group[0], turn) for turn in left)))
        for task in queries:
            task.cancel()
        await asyncio.gather(*queries, return_exceptions=True)


async def _after(players: dict[str, Player], first: Turn, turn: Turn) -> str:
    """Play a turn; one that competes with the first somewhat later."""
    if turn != first:
        await asyncio.sleep(first.competing_after or 0.0)
    return await players[turn.app].play(turn)


async def _query_repeatedly(client: Client, turn: Turn) -> None:
    """Query a turn's workflow until cancelled, as any Temporal client may, whatever happens."""
    workflow = client.get_workflow_handle(workflow_id(SessionKey(*turn[:3]), turn.invocation))
    while True:
        await asyncio.sleep(QUERY_INTERVAL)
        with suppress(RPCError):  # it is not there yet, or no worker answers
            await workflow.query("pending", rpc_timeout=QUERY_TIMEOUT)


def _is_there(path: Path) -> bool:
    return path.exists()


async def _connected(address: str, folder: RunFolder):  # noqa: ANN202 - of Temporal's client
    while True:
        try:
            return await connect(address, data_converter=converter(folder))
        except TemporalUnavailableError:
            await asyncio.sleep(PAUSE)


def start(arguments: list[str]) -> None:
    """Run it."""
    folder, address, store, slot, seed, size = arguments
    scale = SCALES[Size(size)]
    asyncio.run(main(RunFolder(Path(folder)), address, store, slot, int(seed), scale))
