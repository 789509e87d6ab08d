"""What Temporal and the logs know of a conversation when payloads are encrypted (D16, S6, I19)."""

import asyncio
from pathlib import Path

import pytest
from google.genai import types
from temporalio.client import (
    Client,
    WorkflowExecutionStatus,
    WorkflowFailureError,
    WorkflowHandle,
)

from durable_adk.client.connect import converter_of
from durable_adk.client.invocations import InvocationHandle
from durable_adk.encryption import Key
from durable_adk.errors import EncryptionKeyError, InvocationTerminatedError
from durable_adk.ops.doctor import stalled_workflows
from durable_adk.ops.doctor.diagnosis import diagnose
from durable_adk.ops.doctor.findings import Finding, Kind
from durable_adk.ops.doctor.sources import Sources
from durable_adk.sessions import SessionKey
from durable_adk.settings import Settings
from durable_adk.wire.converter import data_converter
from durable_adk.wire.messages import workflow_id
from tests.support.private_agent import KINDS, canary
from tests.support.private_place import (
    OPEN_SESSION,
    OPEN_USER,
    WHOSE,
    Place,
    converse,
    found,
    key_file,
    placed,
)
from tests.support.waiting import until

pytestmark = pytest.mark.thorough

PLAIN: dict[str, str] = {}
KEY = SessionKey("private", OPEN_USER, OPEN_SESSION)


@pytest.mark.parametrize("threshold", [None, 0])
async def test_no_secret_is_in_temporal_or_a_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, threshold: int | None
) -> None:
    """I19, S6, D16: messages, state, arguments, results, errors, approvals; also in the blobs.

    Nor is the id of a user (S2), nor in Temporal that of a session, which log lines name. What
    stays readable is what the documents say (1j).
    """
    keys = key_file(tmp_path / "keys", Key.new("our-key"))
    settings = {"DURABLE_ADK_ENCRYPTION_KEYS": str(keys)}
    if threshold is not None:
        settings["DURABLE_ADK_PAYLOAD_THRESHOLD"] = str(threshold)
    async with placed(tmp_path, settings, monkeypatch) as place:
        await converse(place)
        told = await place.told()
    logs = place.files("*.log")
    names = (OPEN_USER, "note.txt", OPEN_SESSION)
    for data, hidden in [(told, names), (place.files("temporal.db*"), names), (logs, names[:2])]:
        assert found(data) == set()
        assert not [word for word in hidden if word.encode() in data]
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
    """Whether a task of the workflow has failed, and is retried."""
    description = (await handle.describe()).raw_description
    return description.pending_workflow_task.attempt >= 2


async def diagnosed(place: Place, client: Client) -> list[Finding]:
    """What the doctor finds with a client's keys."""
    cases = await diagnose(Sources(client=client, sessions=place.sessions))
    return [case.finding for case in cases]


async def test_a_worker_without_the_key_fails_tasks_and_no_invocation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """S6, I1: as soon as it has the key the invocation continues, even without a restart."""
    monkeypatch.setattr(stalled_workflows, "MIN_ATTEMPTS", 2)  # each waits for longer
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
        await until(lambda: failed(handle))
        (finding,) = await diagnosed(place, client)
        assert (finding.kind, finding.key) == (Kind.STALLED, KEY)
        assert "A payload is encrypted with key 'new'" in finding.problem
        (finding,) = await diagnosed(place, place.client)  # who lacks the key as well
        assert (finding.kind, finding.key) == (Kind.STALLED, SessionKey("", "", ""))
        assert f"workflow {handle.id} is stalled" in finding.problem
        assert "A payload is encrypted with key 'new'" in finding.problem
        key_file(theirs, old, new)
        assert (await asyncio.wait_for(handle.result(), 60))["text"] == canary("answer")


async def test_who_terminates_needs_no_keys(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """S3: its details are plain, which we do not read; the run was terminated all the same."""
    keys = key_file(tmp_path / "keys", Key.new())
    settings = {"DURABLE_ADK_ENCRYPTION_KEYS": str(keys)}
    async with placed(tmp_path, settings, monkeypatch) as place:
        await place.tell("pay")
        (pending,) = await place.runner.pending(**WHOSE)
        workflow = place.client.get_workflow_handle(workflow_id(KEY, pending.invocation_id))
        plain = Client(**{**place.client.config(), "data_converter": data_converter})
        await plain.get_workflow_handle(workflow.id).terminate("no more", reason="by hand")
        handle = InvocationHandle(KEY, pending.invocation_id, workflow)
        with pytest.raises(InvocationTerminatedError, match="workflow was terminated"):
            await asyncio.wait_for(handle.result(), 60)


async def test_a_client_without_keys_is_told_so_and_wedges_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """S3, S6: its start fails with the reason, its signal is refused, what waits continues."""
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
        workflow = workflow_id(KEY, pending.invocation_id)
        answer = {"callId": pending.call_id, "confirmed": True}
        await plain.get_workflow_handle(workflow).signal("answer", answer)
        waiting = place.client.get_workflow_handle(workflow)
        outcomes = await until(lambda: waiting.query("answers"))
        assert "is not encrypted" in str(outcomes)
        with pytest.raises(EncryptionKeyError, match="no keys"):  # the reason is encrypted
            await plain.get_workflow_handle(workflow).execute_update("answer", answer)
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
    workflow = workflow_id(KEY, pending.invocation_id)
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
