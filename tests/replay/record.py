"""Record the histories of a release: ``python -m tests.replay.record RELEASE``."""

import asyncio
import gzip
import json
import sys
import tempfile
from pathlib import Path

from temporalio.client import Client

from durable_adk.client import connect
from durable_adk.embedded import TemporalServer
from durable_adk.runners import Runner
from durable_adk.sessions import SqliteSessionService
from durable_adk.settings import Limits
from durable_adk.worker import WorkerOptions, worker
from tests.replay.conversations import CONVERSATIONS, Conversation
from tests.replay.stage import USER, Stage

HISTORIES = Path(__file__).with_name("histories")


def numbers(release: str) -> tuple[int, ...]:
    """A release as what releases are ordered by."""
    return tuple(map(int, release.split(".")))


def queue(conversation: Conversation) -> str:
    """Its task queue, which is also the name of the registry that has its agents."""
    return f"corpus-{conversation.name}"


def of_release(release: str) -> list[Conversation]:
    """The conversations that a release has."""
    return [one for one in CONVERSATIONS if numbers(one.since) <= numbers(release)]


async def record(release: str, *, folder: Path = HISTORIES) -> None:
    """Hold the conversations of a release with the code that is here, and keep their histories."""
    target = folder / release
    target.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as data:
        async with TemporalServer.start(data_dir=Path(data), headless=True) as server:
            client = await connect(server.address)
            for conversation in of_release(release):
                found = await _held(conversation, client, Path(data))
                text = json.dumps(found, separators=(",", ":"))
                # Without the time of day: the same histories make the same file.
                packed = gzip.compress(text.encode(), mtime=0)
                (target / f"{conversation.name}.json.gz").write_bytes(packed)


async def _held(
    conversation: Conversation, client: Client, folder: Path
) -> list[dict[str, object]]:
    sessions = SqliteSessionService(folder / f"{conversation.name}.db")
    app, name = conversation.app(), queue(conversation)
    limits = Limits(max_history_events=1) if conversation.often else Limits()
    options = WorkerOptions(task_queue=name, limits=limits)
    async with worker(client, apps=[app], session_service=sessions, options=options):
        runner = Runner(app=app, session_service=sessions, client=client, task_queue=name)
        await sessions.create_session(app_name=app.name, **USER)
        stage = Stage(client, app, runner, name)
        await conversation.drive(stage)
        found = await stage.histories()
    await sessions.close()
    return found


if __name__ == "__main__":
    asyncio.run(record(sys.argv[1]))
