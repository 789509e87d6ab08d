"""What keeps an invocation from continuing is logged at once, with what helps."""

import asyncio
import logging
import threading
import uuid
from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Any

import pytest
from google.genai import types
from pydantic import SecretStr
from temporalio.client import Client

from durable_adk.agents import LlmAgent
from durable_adk.apps import App
from durable_adk.cli.terminal import gist as gist_on_terminal
from durable_adk.client import invocations, temporal_backend
from durable_adk.errors import NoWorkerError
from durable_adk.events.event import MISSING_TOOLSETS
from durable_adk.models import LLMRegistry, ScriptedModel
from durable_adk.models.google_llm import Gemini
from durable_adk.runners import InMemoryRunner, Runner
from durable_adk.sessions import SqliteSessionService
from durable_adk.tools.agent_tool import AgentTool
from durable_adk.tools.long_running_tool import LongRunningFunctionTool
from durable_adk.tools.mcp_tool import McpToolset, StreamableHTTPConnectionParams
from durable_adk.worker import Versioning, WorkerOptions, worker
from tests.stubs.gemini_stub import GeminiStub
from tests.support.deploy_places import set_current
from tests.support.scripts import USER, call, gist, send
from tests.support.waiting import PATIENCE, until

pytestmark = pytest.mark.thorough

SOON = 3.0  # seconds within which it is said
QUOTA = {
    "status": 429,
    "headers": {"Retry-After": "3"},
    "body": {"error": {"code": 429, "status": "RESOURCE_EXHAUSTED", "message": "of Ada's"}},
}


def order() -> None:
    """Order tea; the shop answers later."""


@pytest.fixture
def queue() -> str:
    """A task queue of the test's own."""
    return f"test-{uuid.uuid4().hex}"


def app_of(model: Any, **fields: Any) -> App:
    """An app of one agent."""
    return App(name="app", root_agent=LlmAgent(name="a", model=model, **fields))


def lines(caplog: pytest.LogCaptureFixture, name: str) -> list[Any]:
    """The log lines of that name."""
    return [record for record in caplog.records if record.message == name]


async def test_models_are_loaded_in_a_thread_before_a_worker_polls(
    client: Client, sessions: SqliteSessionService, queue: str
) -> None:
    """A library that takes seconds to import holds no step; one that is missing stops no worker."""
    loaded: list[tuple[str, int]] = []

    class Slow(ScriptedModel):
        def load(self) -> None:
            loaded.append((self.model, threading.get_ident()))
            raise ImportError(self.model)

    LLMRegistry.register(type("Named", (Slow,), {"supported_models": lambda: ["by-name"]}))
    agent = LlmAgent(
        name="a",
        model=Slow(model="object"),
        tools=[AgentTool(LlmAgent(name="b", model="by-name"))],
        sub_agents=[LlmAgent(name="c", model="nobody-has-it")],
    )
    app, options = App(name="app", root_agent=agent), WorkerOptions(task_queue=queue)
    async with worker(client, apps=[app], session_service=sessions, options=options):
        assert sorted(name for name, _ in loaded) == ["by-name", "object"]
        assert threading.get_ident() not in {thread for _, thread in loaded}


def test_it_is_said_soon() -> None:
    """A client looks within three seconds of its start."""
    assert temporal_backend.FIRST_LOOK < SOON


@pytest.mark.thorough
async def test_a_queue_without_workers_is_said_first(
    client: Client, sessions: SqliteSessionService, queue: str, caplog: pytest.LogCaptureFixture
) -> None:
    """A warning names the queue and the remedy before the wait ends with an error."""
    app = app_of(ScriptedModel(replies=["x"]))
    runner = Runner(app=app, session_service=sessions, client=client, task_queue=queue)
    waits = asyncio.create_task(send(runner, invocation_id="e-1"))
    before: list[Any] = []
    waits.add_done_callback(lambda _: before.extend(lines(caplog, "invocation.waits")))
    with pytest.raises(NoWorkerError, match=queue):
        await asyncio.wait_for(waits, PATIENCE)
    (said,) = before
    assert said.invocation_id == "e-1"
    assert f"No worker polls task queue {queue!r}" in said.reason
    assert "durable-adk worker" in said.reason
    assert lines(caplog, "invocation.waits") == before


@pytest.mark.thorough
async def test_an_answer_to_a_queue_without_workers_is_said_first(
    client: Client,
    sessions: SqliteSessionService,
    queue: str,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """So is an answer that no worker can take, once the worker that left is forgotten."""
    tool = LongRunningFunctionTool(order)
    app = app_of(ScriptedModel(replies=[call("order"), "thanks"]), tools=[tool])
    options = WorkerOptions(task_queue=queue)
    runner = Runner(app=app, session_service=sessions, client=client, task_queue=queue)
    async with worker(client, apps=[app], session_service=sessions, options=options):
        await send(runner, invocation_id="e-5")
    (waiting,) = await runner.pending(user_id=USER["user_id"], session_id=USER["session_id"])
    answer = types.FunctionResponse(id=waiting.call_id, name="order", response={"tea": 1})
    message = types.Content(role="user", parts=[types.Part(function_response=answer)])
    monkeypatch.setattr(invocations, "POLLER_MAX_AGE", 0.5)
    caplog.clear()
    answers = asyncio.create_task(send(runner, message))
    before: list[Any] = []
    answers.add_done_callback(lambda _: before.extend(lines(caplog, "invocation.waits")))
    await until(lambda: lines(caplog, "invocation.waits") or answers.done())
    (said,) = lines(caplog, "invocation.waits")
    assert f"No worker polls task queue {queue!r}" in said.reason
    async with worker(client, apps=[app], session_service=sessions, options=options):
        await asyncio.gather(answers, return_exceptions=True)
    assert said in before


@pytest.mark.thorough
async def test_versions_without_a_current_one_are_said(
    client: Client, sessions: SqliteSessionService, queue: str
) -> None:
    """The error has the command that makes the workers' version current; then the message runs."""
    app = app_of(ScriptedModel(replies=["here"]))
    options = WorkerOptions(
        task_queue=queue, versioning=Versioning(deployment=queue, build_id="b1")
    )
    runner = Runner(app=app, session_service=sessions, client=client, task_queue=queue)
    async with worker(client, apps=[app], session_service=sessions, options=options):
        with pytest.raises(
            NoWorkerError,
            match=f"have {queue}.b1, but .* workers with no version.*"
            f"set-current-version --deployment-name {queue} --build-id b1",
        ):
            await asyncio.wait_for(send(runner, invocation_id="e-2"), PATIENCE)
        await set_current(client, queue, "b1")
        async with aclosing(runner.run_async(**USER, invocation_id="e-2")) as events:
            assert [gist(event) async for event in events] == ["a text here"]


@pytest.fixture
async def gemini_stub() -> AsyncIterator[GeminiStub]:
    """A scripted Gemini."""
    stub = GeminiStub()
    await stub.start()
    yield stub
    await stub.close()


@pytest.fixture
def quota(gemini_stub: GeminiStub) -> Gemini:
    """A model whose provider says twice that the quota is used up."""
    gemini_stub.script = [QUOTA, QUOTA, "at last"]
    return Gemini(base_url=gemini_stub.url, api_key=SecretStr("key"), timeout=PATIENCE)


@pytest.mark.thorough
async def test_a_quota_is_said_in_process(quota: Gemini, caplog: pytest.LogCaptureFixture) -> None:
    """I19: each refusal is a warning with its kind, the wait and the remedy, without its text."""
    async with InMemoryRunner(app=app_of(quota)) as runner:
        events = await runner.run_debug("hi", quiet=True)
    assert [event.text for event in events] == ["at last"]
    first, second = lines(caplog, "model.unavailable")
    assert first.levelno == logging.WARNING
    assert (first.error_type, first.again_in) == ("RESOURCE_EXHAUSTED", 3.0)
    assert "raise the quota" in first.hint
    assert (first.attempt, second.attempt) == (1, 2)
    assert "Ada" not in caplog.text


@pytest.mark.thorough
async def test_a_quota_is_said_by_workers_and_clients(
    client: Client,
    sessions: SqliteSessionService,
    queue: str,
    quota: Gemini,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A worker logs the refusal, and a client in another process that the step is retried."""
    app = app_of(quota)
    options = WorkerOptions(task_queue=queue)
    elsewhere = await Client.connect(
        client.service_client.config.target_host,
        data_converter=client.data_converter,
        identity="another process",
    )
    runner = Runner(app=app, session_service=sessions, client=elsewhere, task_queue=queue)
    async with worker(client, apps=[app], session_service=sessions, options=options):
        events = await asyncio.wait_for(send(runner, invocation_id="e-4"), PATIENCE)
    assert [gist(event) for event in events] == ["a text at last"]
    assert len(lines(caplog, "model.unavailable")) == 2
    reasons = [line.reason for line in lines(caplog, "invocation.waits")]
    begin = "call_model failed with ModelUnavailableError and is tried again"
    said = [reason for reason in reasons if reason.startswith(begin)]
    assert said, reasons  # again with each attempt that is seen
    assert all("durable-adk show e-4" in reason for reason in said)


@pytest.mark.thorough
async def test_an_mcp_server_that_is_away_is_said(
    unused_tcp_port: int, caplog: pytest.LogCaptureFixture
) -> None:
    """AGT-24: the address, the reason and the remedy are logged, and the agent continues.

    Clients in other processes find it on the event, without the address.
    """
    params = StreamableHTTPConnectionParams(url=f"http://127.0.0.1:{unused_tcp_port}/mcp")
    toolset = McpToolset(connection_params=params)
    app = app_of(ScriptedModel(replies=["without it"]), tools=[toolset])
    async with InMemoryRunner(app=app) as runner:
        events = await runner.run_debug("hi", quiet=True)
    assert [event.text for event in events] == ["without it"]
    assert events[0].custom_metadata == {MISSING_TOOLSETS: ["McpToolset (McpConnectionError)"]}
    told = "had no tools of McpToolset (McpConnectionError): start its server"
    assert told in str(gist_on_terminal(events[0])[-1])
    (said,) = lines(caplog, "toolset.skipped")
    assert f"127.0.0.1:{unused_tcp_port}" in said.error
    assert "start its server" in said.hint
