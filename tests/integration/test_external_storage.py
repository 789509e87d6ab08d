"""Payloads that are kept outside of Temporal (D16; S5, F32)."""

import asyncio
import uuid
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from google.genai import types
from temporalio.api.common.v1 import Payload
from temporalio.api.sdk.v1 import ExternalStorageReference
from temporalio.client import Client
from temporalio.common import RawValue
from temporalio.converter import JSONProtoPayloadConverter, StorageDriverStoreContext
from temporalio.worker import Replayer

from durable_adk.agents import BaseAgent, InvocationContext, LlmAgent
from durable_adk.apps import App
from durable_adk.client import connect
from durable_adk.embedded import TemporalServer, embedded_runner
from durable_adk.errors import PayloadLostError, StoreUnavailableError
from durable_adk.events import Event
from durable_adk.models import LlmRequest, ScriptedModel
from durable_adk.runners import Runner
from durable_adk.sessions import SessionKey, SqliteSessionService
from durable_adk.settings import PAYLOAD_THRESHOLD
from durable_adk.storage import result_upload
from durable_adk.storage.blobs import Blobs
from durable_adk.storage.payload_driver import OwnedStorage, PayloadDriver, blobs_at
from durable_adk.storage.retention import sweep
from durable_adk.tools import FunctionTool
from durable_adk.tools.agent_tool import AgentTool
from durable_adk.tools.long_running_tool import LongRunningFunctionTool
from durable_adk.wire.converter import stored_in
from durable_adk.wire.messages import workflow_id
from durable_adk.worker import WorkerOptions, worker
from durable_adk.workflows.invocation import InvocationWorkflow
from durable_adk.workflows.runner import workflow_runner
from tests.support.s3 import S3
from tests.support.scripts import USER, call, calls, gist, send, stored
from tests.support.waiting import PATIENCE, until

pytestmark = pytest.mark.thorough

CANARY = "canary-7c1d"
KEY = SessionKey("app", "u", "s")


@dataclass
class Place:
    """A server of its own, whose payloads are in a folder, and who runs agents on it."""

    address: str
    folder: Path
    threshold: int
    stack: AsyncExitStack
    bucket: str | None = None
    """Where the payloads are instead."""
    client: Client = field(init=False)
    queue: str = ""
    """Of the last runner."""

    async def connected(self) -> Client:
        """Another client, with the same setting."""
        kept = self.bucket or self.folder / "payloads"
        converter = await asyncio.to_thread(stored_in, kept, threshold=self.threshold)
        return await connect(self.address, data_converter=converter)

    async def runner(self, agent: BaseAgent) -> Runner:
        """A runner, whose worker has a connection of its own."""
        queue = self.queue = f"test-{uuid.uuid4().hex}"
        service = SqliteSessionService(self.folder / f"{queue}.db")
        self.stack.push_async_callback(service.close)
        app = App(name="app", root_agent=agent)
        options = WorkerOptions(task_queue=queue)
        serving = worker(
            await self.connected(), apps=[app], session_service=service, options=options
        )
        await self.stack.enter_async_context(serving)
        runner = Runner(app=app, session_service=service, client=self.client, task_queue=queue)
        return await self.stack.enter_async_context(runner)

    def blobs(self) -> list[Path]:
        """What is kept."""
        return sorted((self.folder / "payloads").glob("*/*"))


@asynccontextmanager
async def placed(folder: Path, threshold: int, bucket: str | None = None) -> AsyncIterator[Place]:
    """A place; at its end each history is replayed with what is kept there."""
    async with AsyncExitStack() as stack:
        server = await stack.enter_async_context(
            TemporalServer.start(data_dir=folder, headless=True)
        )
        place = Place(server.address, folder, threshold, stack, bucket)
        place.client = await place.connected()
        yield place


@pytest.fixture
async def place(tmp_path: Path) -> AsyncIterator[Place]:
    """A place where 10 KB is large."""
    async with placed(tmp_path, 10_000) as made:
        yield made


def said(folder: Path, pattern: str) -> bool:
    """Whether the canary is in one of the files, of which there are some."""
    files = list(folder.glob(pattern))
    assert files
    return any(CANARY.encode() in file.read_bytes() for file in files)


def order() -> None:
    """Order something; the shop answers later."""


def speaker(*replies: Any, tools: Any = ()) -> LlmAgent:
    """An agent with a script."""
    return LlmAgent(name="a", model=ScriptedModel(replies=replies), tools=list(tools))


async def test_what_is_large_goes_round_and_what_is_small_does_not(place: Place) -> None:
    """D16: message, call, result and answer, through another connection's worker."""
    runs: list[int] = []

    def long(text: str) -> str:
        runs.append(1)
        return text + CANARY * 10_000

    model = [call("long", text="y" * 50_000), "z" * 50_000]
    runner = await place.runner(speaker(*model, tools=[FunctionTool(long, name="long")]))
    events = await send(runner, "x" * 50_000)
    assert [gist(event)[:9] for event in events] == ["a call lo", "a respons", "a text zz"]
    assert runs == [1]
    assert place.blobs()
    (execution,) = await until(lambda: executions(place))
    history = await place.client.get_workflow_handle(execution.id).fetch_history()
    assert len(history.to_json()) < 60_000
    assert await replay(place)


async def executions(place: Place) -> list[Any]:
    """What Temporal lists, which is behind by a moment."""
    return [item async for item in place.client.list_workflows()]


async def replay(place: Place) -> int:
    """Replay each history with what the place keeps; how many there were (I13)."""
    replayer = Replayer(
        workflows=[InvocationWorkflow],
        data_converter=place.client.data_converter,
        namespace=place.client.namespace,
        workflow_runner=workflow_runner(sandboxed=True),
    )
    found = await until(lambda: executions(place))
    for execution in found:
        handle = place.client.get_workflow_handle(execution.id, run_id=execution.run_id)
        await replayer.replay_workflow(await handle.fetch_history())
    return len(found)


async def test_an_agent_asked_by_an_agent_has_its_own_payloads(place: Place) -> None:
    """S5, OPEN-6: question and answer cross from one owner to another and back."""
    child = LlmAgent(name="child", model=ScriptedModel(replies=["b" * 60_000]))
    asked = call("child", request="q" * 60_000)
    runner = await place.runner(speaker(asked, "so it is", tools=[AgentTool(child)]))
    events = await send(runner)
    assert gist(events[-1]) == "a text so it is"
    assert len({path.parent for path in place.blobs()}) == 2
    assert await replay(place)


async def test_an_answer_to_a_call_that_waits_can_be_large(place: Place) -> None:
    """D9: the signal's payload."""
    tool = LongRunningFunctionTool(order)
    runner = await place.runner(speaker(call("order"), "it came", tools=[tool]))
    await send(runner)
    (pending,) = await runner.pending(**USER)
    response = types.FunctionResponse(
        id=pending.call_id, name=pending.name, response={"text": "x" * 80_000}
    )
    message = types.Content(role="user", parts=[types.Part(function_response=response)])
    events = [event async for event in runner.run_async(**USER, new_message=message)]
    assert gist(events[-1]) == "a text it came"


def reference(claim: dict[str, str]) -> RawValue:
    """A payload that refers to a stored one, as any client can write it."""
    made = ExternalStorageReference(driver_name="durable-adk", claim_data=claim)
    payload = JSONProtoPayloadConverter().to_payload(made)
    assert payload is not None
    return RawValue(payload)


def scripted(first: Any) -> ScriptedModel:
    """A model that says `first`, and next to a message that says again."""

    def reply(request: LlmRequest) -> Any:
        texts = [part.text for content in request.contents for part in content.parts or []]
        return "next" if "again" in texts else first

    return ScriptedModel(replies=reply)


async def claim_of(place: Place, owner: str, value: str) -> dict[str, str]:
    """A true claim, of another workflow's payload."""
    storage = place.client.data_converter.external_storage
    assert isinstance(storage, OwnedStorage)
    (driver,) = storage.drivers
    assert isinstance(driver, PayloadDriver)
    payload = Payload(metadata={"encoding": b"json/plain"}, data=value.encode())
    owned = replace(driver, owner=owner)
    (claim,) = await owned.store(StorageDriverStoreContext(), [payload])
    return dict(claim.claim_data)


@pytest.mark.parametrize("kind", ["forged", "another workflow"])
async def test_a_forged_reference_is_refused_and_its_run_goes_on(place: Place, kind: str) -> None:
    """S5: nothing of another tenant is read, and nothing is wedged."""
    tool = LongRunningFunctionTool(order)
    runner = await place.runner(speaker(call("order"), "it came", tools=[tool]))
    events = await send(runner)
    (pending,) = await runner.pending(**USER)
    secret = f'{{"callId": "{pending.call_id}", "response": {{"text": "{CANARY}"}}}}'
    claim = await claim_of(place, "default/another", secret)
    if kind == "forged":
        claim["code"] = "0" * 64
    ours = workflow_id(KEY, events[0].invocation_id)
    handle = place.client.get_workflow_handle(ours)
    await handle.signal("answer", reference(claim))
    outcomes = await until(lambda: handle.query("answers"))
    assert kind in str(outcomes)
    assert CANARY not in str([event.model_dump() for event in await stored(runner)])
    assert [item.call_id for item in await runner.pending(**USER)] == [pending.call_id]


@pytest.mark.parametrize("claim", [{}, {"owner": "../..", "sha256": "x", "code": "\u20ac"}])
async def test_a_start_by_a_bad_reference_fails_with_the_reason(
    place: Place, claim: dict[str, str]
) -> None:
    """S5, F32: it does not fail its workflow task for ever."""
    await place.runner(speaker("never"))
    handle = await place.client.start_workflow(
        "Invocation", reference(claim), id=uuid.uuid4().hex, task_queue=place.queue
    )
    with pytest.raises(Exception, match="Workflow execution failed") as caught:
        await asyncio.wait_for(handle.result(), PATIENCE)
    assert "forged" in str(caught.value.__cause__)


@pytest.mark.parametrize("damage", ["lost", "changed"])
@pytest.mark.parametrize("count", [1, 2])
async def test_a_blob_that_is_gone_ends_the_run_with_an_error_event(
    place: Place, damage: str, count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """F32, I8, I22: each tool ran once, and the next message runs.

    A single call's response is stored already when its report is lost. The loop does not know it;
    what ends the run reads it from the store, and goes after it.
    """
    runs: list[int] = []

    def long() -> str:
        runs.append(1)
        return "x" * 50_000

    whole = Blobs.put

    async def broken(self: Blobs, name: str, data: bytes) -> None:
        await whole(self, name, data)
        if runs:
            path = place.folder / "payloads" / name
            path.unlink() if damage == "lost" else path.write_bytes(b"other")

    monkeypatch.setattr(Blobs, "put", broken)
    tool = FunctionTool(long, name="long")
    model = scripted(calls(*[("long", {})] * count))
    runner = await place.runner(LlmAgent(name="a", model=model, tools=[tool]))
    with pytest.raises(PayloadLostError):
        await asyncio.wait_for(send(runner), PATIENCE)
    log = await stored(runner)
    assert [gist(event) for event in log[2:]] == [
        f"a response {','.join(['long'] * count)}",
        "a error PayloadLostError",
    ]
    assert damage in (log[-1].error_message or "")
    assert runs == [1] * count
    monkeypatch.undo()
    events = await asyncio.wait_for(send(runner, "again"), PATIENCE)
    assert gist(events[-1]) == "a text next"


RUNS: list[int] = []


def long() -> str:
    """A step's function, or a tool."""
    RUNS.append(1)
    return "x" * 50_000


class Stepping(BaseAgent):
    """A custom agent with a step."""

    async def _run_async_impl(self, ctx: InvocationContext) -> Any:
        text = await ctx.step(long)
        yield Event(author=self.name, content=types.ModelContent(f"{len(text)}"))


@pytest.mark.parametrize("kind", ["tool", "step"])
async def test_a_store_that_is_away_runs_nothing_again(
    place: Place, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """F32, I8, 1g: the result waits for the store while its activity lives; longer than a beat."""
    RUNS.clear()
    away: list[int] = []
    whole = Blobs.put

    async def failing(self: Blobs, name: str, data: bytes) -> None:
        if RUNS and len(away) < 6:
            away.append(1)
            raise StoreUnavailableError("the disk is away")
        await whole(self, name, data)

    monkeypatch.setattr(Blobs, "put", failing)
    agent = speaker(call("long"), "50000", tools=[long]) if kind == "tool" else Stepping(name="a")
    events = await asyncio.wait_for(send(await place.runner(agent)), PATIENCE)
    assert gist(events[-1]) == "a text 50000"
    assert (len(RUNS), len(away)) == (1, 6)


async def test_a_store_that_stays_away_ends_the_run(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """F32, I8: when patience ends the error is final; what has run does not run again."""
    RUNS.clear()
    whole = Blobs.put

    async def failing(self: Blobs, name: str, data: bytes) -> None:
        if RUNS:
            raise StoreUnavailableError("the disk is away")
        await whole(self, name, data)

    monkeypatch.setattr(Blobs, "put", failing)
    monkeypatch.setattr(result_upload, "RESERVE", timedelta(days=1))
    runner = await place.runner(Stepping(name="a"))
    with pytest.raises(PayloadLostError, match="the disk is away"):
        await asyncio.wait_for(send(runner), PATIENCE)
    assert RUNS == [1]
    assert [gist(event) for event in await stored(runner)][1:] == ["a error PayloadLostError"]


async def test_with_threshold_zero_no_word_of_a_conversation_is_in_temporal(tmp_path: Path) -> None:
    """D16, S6: messages, state, calls, results, answers, errors; the whole server file is read."""

    def secret(text: str) -> str:
        return f"{CANARY} found"

    def broken() -> None:
        raise ValueError(f"{CANARY} broke")

    async with placed(tmp_path, 0) as place:
        tools = [FunctionTool(secret, name="secret"), FunctionTool(broken, name="broken")]
        replies = [call("secret", text=CANARY), f"{CANARY} it is", call("broken")]
        runner = await place.runner(speaker(*replies, tools=tools))
        events = await send(runner, f"hello {CANARY}", state_delta={"key": CANARY})
        assert gist(events[-1]) == f"a text {CANARY} it is"
        with pytest.raises(ValueError, match=CANARY):
            await send(runner, f"again {CANARY}")
        assert place.blobs()
        assert await replay(place)
    assert not said(tmp_path, "temporal.db*")
    assert said(tmp_path, "payloads/*/*")


async def test_what_closed_invocations_kept_is_swept(place: Place) -> None:
    """I24: and what open ones keep stays."""
    tool = LongRunningFunctionTool(order)
    waiting = await place.runner(speaker(call("order"), "it came", tools=[tool]))
    await send(waiting, "x" * 50_000)
    kept = place.blobs()
    done = await place.runner(speaker("fine"))
    await send(done, "y" * 50_000)
    assert len(place.blobs()) > len(kept)
    blobs = blobs_at(place.folder / "payloads")
    assert await sweep(place.client, blobs, older_than=3600) == 0
    # Its workflow ends a moment after its last event.
    await until(lambda: sweep(place.client, blobs, older_than=-1))
    assert place.blobs() == kept


async def test_what_is_large_can_be_in_a_bucket(tmp_path: Path, s3: S3) -> None:
    """D16, F32, I24: read by another connection, swept when it is over; what is lost is said."""
    RUNS.clear()
    bucket = s3.uri()
    async with placed(tmp_path, 10_000, bucket) as place:
        runner = await place.runner(speaker(call("long"), "fine", tools=[long]))
        assert gist((await send(runner, "y" * 50_000))[-1]) == "a text fine"
        blobs = blobs_at(bucket)
        assert len(await blobs.expired(-60)) == 1
        assert not place.blobs()
        # Its workflow ends a moment after its last event.
        await until(lambda: sweep(place.client, blobs, older_than=-60))
        assert await blobs.expired(-60) == []


async def test_the_embedded_runner_keeps_large_payloads_in_its_folder(tmp_path: Path) -> None:
    """D16: on by default there."""
    async with embedded_runner(speaker("fine"), data_dir=tmp_path) as runner:
        events = [event async for event in runner.run_async(**USER, new_message="x" * 500_000)]
    assert gist(events[-1]) == "a text fine"
    assert list((tmp_path / "payloads").glob("*/*"))


async def test_at_the_default_threshold_every_client_reads_the_result(tmp_path: Path) -> None:
    """D5: whoever started an invocation with a client of their own sees how it ended."""
    async with placed(tmp_path, PAYLOAD_THRESHOLD) as place:
        events = await send(await place.runner(speaker("\u20ac" * 300_000)))
        plain = await connect(place.address)
        handle = plain.get_workflow_handle(workflow_id(KEY, events[0].invocation_id))
        assert (await handle.result())["text"] == "\u20ac" * 65_536
        assert place.blobs()


def forget(folder: Path) -> None:
    """Take what a server knows, so that the next one in the folder knows nothing of it."""
    for file in folder.glob("temporal.db*"):
        file.unlink()


@pytest.mark.parametrize("shared", [True, False])
async def test_an_embedded_server_sweeps_only_what_is_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shared: bool
) -> None:
    """I24, F32: a place that is named may keep what is open elsewhere, which it does not know."""
    monkeypatch.setattr("durable_adk.embedded.runner.PAYLOADS_KEPT", timedelta(seconds=-60))
    payloads = tmp_path / "payloads"
    if shared:
        payloads = tmp_path / "shared"
        monkeypatch.setenv("DURABLE_ADK_PAYLOADS", str(payloads))
    waits = speaker(call("order"), "it came", tools=[LongRunningFunctionTool(order)])
    async with embedded_runner(waits, data_dir=tmp_path) as runner:
        _ = [event async for event in runner.run_async(**USER, new_message="x" * 500_000)]
    assert list(payloads.glob("*/*"))
    forget(tmp_path)
    async with embedded_runner(speaker("fine"), data_dir=tmp_path):
        assert bool(list(payloads.glob("*/*"))) is shared
