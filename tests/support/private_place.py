"""A place where the private agent runs, whose files and logs are searched."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from google.genai import types
from temporalio.client import Client

from durable_adk.artifacts import FileArtifactService
from durable_adk.embedded import TemporalServer
from durable_adk.embedded.shared import connect_embedded, start_worker_process
from durable_adk.encryption import Key
from durable_adk.runners import Runner
from durable_adk.sessions import SqliteSessionService
from tests.support.private_agent import KINDS, app, canary
from tests.support.scripts import gist
from tests.support.waiting import until

ROOT = Path(__file__).parents[2]
AGENT = ROOT / "tests" / "support" / "private_agent.py"
OPEN_USER = "anna-4711"
OPEN_SESSION = "case-0815"
WHOSE = {"user_id": OPEN_USER, "session_id": OPEN_SESSION}


def key_file(path: Path, *keys: Key) -> Path:
    """A key file as an operator makes it."""
    path.write_text("".join(f"{key.line()}\n" for key in keys))
    path.chmod(0o600)
    return path


@dataclass
class Place:
    """A server, a worker process and a client, all set up by the environment."""

    folder: Path
    client: Client
    runner: Runner
    sessions: SqliteSessionService

    async def tell(self, message: str | types.Content, **options: object) -> list[str]:
        """Send a message; what came of it."""
        run = self.runner.run_async(**WHOSE, new_message=message, **options)
        return [gist(event) async for event in run]

    async def told(self) -> bytes:
        """All that Temporal tells of its workflows by its API."""
        found: list[bytes] = []
        async for execution in self.client.list_workflows():
            handle = self.client.get_workflow_handle(execution.id, run_id=execution.run_id)
            history = await handle.fetch_history()
            found += [event.SerializeToString() for event in history.events]
            found.append((await handle.describe()).raw_description.SerializeToString())
        assert found
        return b"".join(found)

    def files(self, pattern: str) -> bytes:
        """What is in files, of which there are some."""
        files = [path for path in self.folder.glob(pattern) if path.is_file()]
        assert files, pattern
        return b"".join(path.read_bytes() for path in files)


def starts(log: Path) -> int:
    """How many workers have started."""
    return log.read_bytes().count(b"worker.started") if log.exists() else 0


@asynccontextmanager
async def placed(
    folder: Path, settings: Mapping[str, str], monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Place]:
    """A place where everybody has these settings."""
    for name, value in settings.items():
        monkeypatch.setenv(name, value)
    sessions = SqliteSessionService(folder / "sessions.db")
    async with TemporalServer.start(data_dir=folder, headless=True) as server:
        client = await connect_embedded(server.address, folder / "payloads")
        log = folder / "worker.log"
        ran = starts(log)
        process = await start_worker_process(
            str(AGENT),
            address=server.address,
            store=str(folder / "sessions.db"),
            task_queue="private",
            data_dir=folder,
            log=log,
        )
        async with (
            process,
            Runner(
                app=app,
                client=client,
                task_queue="private",
                session_service=sessions,
                artifact_service=FileArtifactService(folder / "artifacts"),
                auto_create_session=True,
            ) as runner,
        ):
            await until(lambda: starts(log) > ran)
            yield Place(folder, client, runner, sessions)
    await sessions.close()


async def converse(place: Place) -> None:
    """Have each secret go the way that its like goes."""
    said = await place.tell(f"keep {canary('message')}", state_delta={"mine": canary("state")})
    assert said[-1] == f"private text {canary('answer')}"
    with pytest.raises(ValueError, match=canary("exception")):
        await place.tell("broken")
    with pytest.raises(RuntimeError, match=canary("callback")):
        await place.tell("callback")
    await place.tell("pay")
    (pending,) = await place.runner.pending(**WHOSE)
    response = {"confirmed": True, "payload": {"note": canary("approval")}}
    part = types.FunctionResponse(id=pending.call_id, name=pending.name, response=response)
    content = types.Content(role="user", parts=[types.Part(function_response=part)])
    assert (await place.tell(content))[-1] == f"private text {canary('answer')}"


def found(data: bytes) -> set[str]:
    """The kinds of secrets that are in it."""
    return {kind for kind in KINDS if canary(kind).encode() in data}
