"""Record what later releases have to understand: ``python -m tests.replay.record``.

Until the version that the code says it is has a tag, its pins are written anew: the histories of
all conversations, and `shapes`.
"""

import asyncio
import gzip
import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from temporalio.client import Client

import durable_adk
from durable_adk.client import connect
from durable_adk.embedded import TemporalServer
from durable_adk.runners import Runner
from durable_adk.sessions import SqliteSessionService
from durable_adk.settings import Limits
from durable_adk.worker import WorkerOptions, worker
from tests.replay.conversations import CONVERSATIONS, Conversation
from tests.replay.shapes import shapes
from tests.replay.stage import USER, Stage

HISTORIES = Path(__file__).with_name("histories")
SHAPES = Path(__file__).with_name("shapes")
ROOT = Path(__file__).parents[2]


def numbers(release: str) -> tuple[int, ...]:
    """A release as what releases are ordered by."""
    return tuple(map(int, release.split(".")))


def queue(conversation: Conversation) -> str:
    """Its task queue, which is also the name of the registry that has its agents."""
    return f"corpus-{conversation.name}"


def of_release(release: str) -> list[Conversation]:
    """The conversations that a release has."""
    return [one for one in CONVERSATIONS if numbers(one.since) <= numbers(release)]


def write_shapes(release: str, *, folder: Path = SHAPES) -> None:
    """Keep the shapes of the code that is here."""
    folder.mkdir(exist_ok=True)
    (folder / f"{release}.json").write_text(json.dumps(shapes(), indent=1) + "\n")


async def record(release: str, *, folder: Path = HISTORIES) -> None:
    """Hold the conversations of a release with the code that is here, and keep their histories."""
    target = folder / release
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir(parents=True)
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


def is_released(release: str) -> bool:
    """Whether there is a tag of it; what it has recorded is then never changed."""
    command = ["git", "tag", "--list", f"v{release}", release]
    found = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    return bool(found.stdout.strip())


def main() -> str | None:
    """Write the pins of the version that the code says it is; return why that cannot be."""
    release = durable_adk.__version__
    if is_released(release):
        return f"{release} is released: raise the version in pyproject.toml and durable_adk first."
    write_shapes(release)
    asyncio.run(record(release))
    return None


if __name__ == "__main__":
    sys.exit(main())
