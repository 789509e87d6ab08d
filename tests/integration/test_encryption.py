"""What Temporal and the logs know of a conversation when payloads are encrypted (D16, S6, I19)."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from google.genai import types
from temporalio.client import (
    Client,
    WorkflowExecutionStatus,
    WorkflowFailureError,
    WorkflowHandle,
)

from durable_adk.artifacts import FileArtifactService
from durable_adk.client.connect import converter_of
from durable_adk.converter import data_converter
from durable_adk.embedded import TemporalServer
from durable_adk.embedded.shared import connect_embedded
from durable_adk.embedded.worker_process import start_worker_process
from durable_adk.encryption import Key
from durable_adk.errors import CallbackError, EncryptionKeyError, ToolError
from durable_adk.messages import workflow_id
from durable_adk.runners import Runner
from durable_adk.sessions import SessionKey, SqliteSessionService
from durable_adk.settings import Settings
from tests.support.private_agent import KINDS, app, canary
from tests.support.processes import until
from tests.support.scripts import gist

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
    with pytest.raises(ToolError, match=canary("exception")):
        await place.tell("broken")
    with pytest.raises(CallbackError, match=canary("callback")):
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


PLAIN: dict[str, str] = {}


@pytest.mark.parametrize("threshold", [None, 0])
async def test_no_secret_is_in_temporal_or_a_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, threshold: int | None
) -> None:
    """I19, S6, D16: messages, state, arguments, results, errors, approvals; also in the blobs.

    Nor is the id of a user or a session (S2). What stays readable is what the documents say (1j).
    """
    keys = key_file(tmp_path / "keys", Key.new("our-key"))
    settings = {"DURABLE_ADK_ENCRYPTION_KEYS": str(keys)}
    if threshold is not None:
        settings["DURABLE_ADK_PAYLOAD_THRESHOLD"] = str(threshold)
    async with placed(tmp_path, settings, monkeypatch) as place:
        await converse(place)
        told = await place.told()
    files = place.files("temporal.db*") + place.files("*.log")
    for data in (told, files):
        assert found(data) == set()
        assert not [word for word in (OPEN_USER, OPEN_SESSION, "note.txt") if word.encode() in data]
    readable = ["invocation-private-", "call_model", "ToolError", "answer"]
    assert [word for word in readable if word.encode() not in told] == []
    assert (b"our-key" in told) == (threshold is None)
    if threshold == 0:
        assert found(place.files("payloads/*/*")) == set()
    kept = {kind for kind in KINDS if kind not in ("temp", "artifact")}
    assert found(place.files("sessions.db*")) == kept  # the operator's database is not encrypted


async def test_without_keys_the_secrets_are_in_temporal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """I19: the search finds what is there; only what an artifact holds never is."""
    async with placed(tmp_path, PLAIN, monkeypatch) as place:
        await converse(place)
        assert found(await place.told()) == set(KINDS) - {"artifact"}
    assert found(place.files("temporal.db*")) == set(KINDS) - {"artifact"}
    assert found(place.files("*.log")) == set()


async def approve(place: Place) -> list[str]:
    """Say yes to what waits."""
    (pending,) = await place.runner.pending(**WHOSE)
    response = {"confirmed": True, "payload": {}}
    part = types.FunctionResponse(id=pending.call_id, name=pending.name, response=response)
    return await place.tell(types.Content(role="user", parts=[types.Part(function_response=part)]))


async def started(client: Client) -> WorkflowHandle[object, dict[str, str]]:
    """An invocation that a client of its own kind has started."""
    request = {"app": "private", "user": OPEN_USER, "session": OPEN_SESSION, "message": "keep it"}
    return await client.start_workflow(
        "Invocation", request, id="by-another-client", task_queue="private"
    )


async def failed(handle: WorkflowHandle[object, object]) -> bool:
    """Whether a task of the workflow has failed."""
    description = (await handle.describe()).raw_description
    return description.pending_workflow_task.attempt > 1


async def test_a_worker_without_the_key_fails_tasks_and_no_invocation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """S6, I1: as soon as it has the key the invocation goes on, even without a restart."""
    old, new = Key.new("old"), Key.new("new")
    theirs = key_file(tmp_path / "theirs", old)
    ours = key_file(tmp_path / "ours", new, old)
    settings = {"DURABLE_ADK_ENCRYPTION_KEYS": str(theirs)}
    async with placed(tmp_path, settings, monkeypatch) as place:
        assert (await place.tell(f"keep {canary('message')}"))[-1].startswith("private text")
        rotated = converter_of(Settings(encryption_keys=ours))
        client = Client(**{**place.client.config(), "data_converter": rotated})
        request = {
            "app": "private",
            "user": OPEN_USER,
            "session": OPEN_SESSION,
            "message": f"keep {canary('message')}",
        }
        handle = await client.start_workflow(
            "Invocation", request, id="from-another-client", task_queue="private"
        )
        await until(lambda: b"new" in (tmp_path / "worker.log").read_bytes())
        log = (tmp_path / "worker.log").read_text()
        assert "EncryptionKeyError: A payload is encrypted with key 'new'" in log
        assert (await handle.describe()).status is WorkflowExecutionStatus.RUNNING
        key_file(theirs, old, new)
        assert (await asyncio.wait_for(handle.result(), 60))["text"] == canary("answer")


async def test_a_client_without_keys_is_told_so_and_wedges_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """S3, S6: its start fails with the reason, its signal is refused, what waits goes on."""
    keys = key_file(tmp_path / "keys", Key.new())
    settings = {"DURABLE_ADK_ENCRYPTION_KEYS": str(keys)}
    async with placed(tmp_path, settings, monkeypatch) as place:
        plain = Client(**{**place.client.config(), "data_converter": data_converter})
        request = {
            "app": "private",
            "user": OPEN_USER,
            "session": OPEN_SESSION,
            "message": "keep this",
        }
        handle = await plain.start_workflow("Invocation", request, id="plain", task_queue="private")
        with pytest.raises(EncryptionKeyError, match="this process has no keys"):
            await asyncio.wait_for(handle.result(), 60)
        ours = place.client.get_workflow_handle(handle.id)
        with pytest.raises(WorkflowFailureError) as caught:
            await ours.result()
        assert "is not encrypted" in str(caught.value.cause)
        await place.tell("pay")
        (pending,) = await place.runner.pending(**WHOSE)
        workflow = workflow_id(
            SessionKey("private", OPEN_USER, OPEN_SESSION), pending.invocation_id
        )
        answer = {"callId": pending.call_id, "confirmed": True}
        await plain.get_workflow_handle(workflow).signal("answer", answer)
        waiting = place.client.get_workflow_handle(workflow)
        outcomes: dict[str, str] = {}
        async with asyncio.timeout(60):
            while not outcomes:
                outcomes = await waiting.query("answers")
        assert "is not encrypted" in str(outcomes)
        assert (await approve(place))[-1] == f"private text {canary('answer')}"


async def test_an_invocation_from_before_the_keys_goes_on_while_plain_is_accepted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """D6: encryption is switched on under open invocations; without the setting they wait."""
    keys = key_file(tmp_path / "keys", Key.new())
    async with placed(tmp_path, PLAIN, monkeypatch) as place:
        await place.tell("pay")
        (pending,) = await place.runner.pending(**WHOSE)
    settings = {"DURABLE_ADK_ENCRYPTION_KEYS": str(keys)}
    workflow = workflow_id(SessionKey("private", OPEN_USER, OPEN_SESSION), pending.invocation_id)
    async with placed(tmp_path, settings, monkeypatch) as place:
        handle = place.client.get_workflow_handle(workflow)
        answer = {"callId": pending.call_id, "confirmed": True}
        await handle.signal("answer", answer)
        await until(lambda: failed(handle))
        assert (await handle.describe()).status is WorkflowExecutionStatus.RUNNING
    settings["DURABLE_ADK_ENCRYPTION_ACCEPTS_PLAIN"] = "true"
    async with placed(tmp_path, settings, monkeypatch) as place:
        result = await asyncio.wait_for(place.client.get_workflow_handle(workflow).result(), 60)
        assert result["text"] == canary("answer")
