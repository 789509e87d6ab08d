"""One plugin makes a worker that is there already serve agents (D18)."""

import uuid
import warnings
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from google.genai import types
from temporalio import activity, workflow
from temporalio.client import Client
from temporalio.converter import DataConverter
from temporalio.worker import Replayer, Worker
from temporalio.worker.workflow_sandbox import SandboxedWorkflowRunner

from durable_adk.agents import BaseAgent, InvocationContext, LlmAgent
from durable_adk.apps import App, registry
from durable_adk.client import Invocations, connect
from durable_adk.embedded import TemporalServer
from durable_adk.errors import InvalidRequestError
from durable_adk.events import Event
from durable_adk.models import ScriptedModel
from durable_adk.plugin import DurableAdkPlugin
from durable_adk.runners import Runner
from durable_adk.sessions import SqliteSessionService
from durable_adk.wire.converter import stored_in
from durable_adk.wire.messages import InvocationRequest
from durable_adk.worker import HEARTBEAT_THROTTLE, WorkerOptions, worker
from tests.support.scripts import call, gist
from tests.support.waiting import PATIENCE, until


def get_capital(country: str) -> str:
    """Return the capital of a country."""
    return {"France": "Paris"}[country]


class Herald(BaseAgent):
    """A body of its own: it runs in the workflow, where it has to be found again."""

    async def _run_async_impl(self, ctx: InvocationContext) -> AsyncGenerator[Event, None]:
        content = types.Content(role="model", parts=[types.Part(text="Hear!")])
        yield Event(author=self.name, content=content)


def geographer() -> App:
    """An app that answers where France's capital is."""
    model = ScriptedModel(replies=[call("get_capital", country="France"), "It is Paris."] * 3)
    return App(name="geo", root_agent=LlmAgent(name="g", model=model, tools=[get_capital]))


def herald() -> App:
    """An app with a custom agent."""
    return App(name="herald", root_agent=Herald(name="herald"))


@activity.defn
async def shout(text: str) -> str:
    """An activity of theirs."""
    return text.upper()


@workflow.defn(name="Theirs")
class Theirs:
    """A workflow of theirs, in the sandbox."""

    @workflow.run
    async def run(self, text: str) -> str:
        """Shout."""
        return await workflow.execute_activity(
            shout, text, start_to_close_timeout=timedelta(seconds=PATIENCE)
        )


@pytest.fixture
async def plugin(sessions: SqliteSessionService) -> DurableAdkPlugin:
    """Two apps."""
    return DurableAdkPlugin(apps=[geographer(), herald()], session_service=sessions)


@pytest.fixture
def task_queue() -> str:
    """A task queue of its own."""
    return f"test-{uuid.uuid4().hex}"


@asynccontextmanager
async def their_worker(client: Client, task_queue: str, **options: Any) -> AsyncGenerator[Worker]:
    """A worker as they have it."""
    theirs = Worker(
        client, task_queue=task_queue, workflows=[Theirs], activities=[shout], **options
    )
    async with theirs:
        yield theirs


async def ask(client: Client, task_queue: str, app: str) -> dict[str, Any]:
    """An answer, by a client that may know nothing of us."""
    return await client.execute_workflow(
        "Invocation",
        {"app": app, "user": "u", "message": "France?", "invocationId": "e-1"},
        id=f"{app}-{task_queue}",
        task_queue=task_queue,
        result_type=dict,
    )


async def test_one_worker_runs_their_workflow_and_ours(
    server: TemporalServer, plugin: DurableAdkPlugin, task_queue: str, sessions: Any
) -> None:
    """D18: a plugin on the client is all that their worker needs; its events can be followed."""
    client = await Client.connect(server.address, plugins=[plugin])
    async with their_worker(client, task_queue):
        shouted = await client.execute_workflow(
            Theirs.run, "hey", id=uuid.uuid4().hex, task_queue=task_queue
        )
        assert shouted == "HEY"
        assert (await ask(client, task_queue, "geo"))["text"] == "It is Paris."
        assert (await ask(client, task_queue, "herald"))["text"] == "Hear!"
        runner = Runner(
            app=geographer(), session_service=sessions, client=client, task_queue=task_queue
        )
        events = runner.run_async(user_id="u", session_id="e-1", invocation_id="e-1")
        assert [gist(event) async for event in events][-1] == "g text It is Paris."


async def test_a_plugin_on_the_worker_is_enough(
    server: TemporalServer, plugin: DurableAdkPlugin, task_queue: str
) -> None:
    """D18: the client, which they share with others, stays as it is."""
    client = await Client.connect(server.address)
    async with their_worker(client, task_queue, plugins=[plugin]):
        assert (await ask(client, task_queue, "geo"))["text"] == "It is Paris."
        assert client.data_converter is DataConverter.default


async def test_the_replayer_replays_with_the_plugin(
    server: TemporalServer,
    plugin: DurableAdkPlugin,
    task_queue: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """D18, I13: it brings the workflow, the converter, the sandbox's rules and the agents' code."""
    client = await Client.connect(server.address, plugins=[plugin])
    async with their_worker(client, task_queue):
        for app in ("geo", "herald"):
            await ask(client, task_queue, app)
    monkeypatch.delitem(registry._by_name, task_queue)  # as in another process
    fresh = DurableAdkPlugin(apps=[geographer(), herald()], session_service=plugin_store(plugin))
    replayer = Replayer(workflows=[Theirs], plugins=[fresh])
    query = f"TaskQueue = '{task_queue}'"

    async def are_seen() -> bool:
        return await count(client, query) == 2

    await until(are_seen)
    results = await replayer.replay_workflows(client.list_workflows(query).map_histories())
    assert not results.replay_failures


def plugin_store(plugin: DurableAdkPlugin) -> SqliteSessionService:
    """The store that was passed to the plugin."""
    assert isinstance(plugin._sessions, SqliteSessionService)
    return plugin._sessions


async def count(client: Client, query: str) -> int:
    """How many workflows the server shows."""
    return (await client.count_workflows(query)).count


async def test_what_they_have_chosen_stays(
    server: TemporalServer, plugin: DurableAdkPlugin, task_queue: str
) -> None:
    """D18, D19: ours replace only the SDK's defaults; the sandbox keeps their rules."""
    client = await Client.connect(server.address, plugins=[plugin])
    chosen = timedelta(seconds=3)
    rules = SandboxedWorkflowRunner()
    theirs = Worker(
        client,
        task_queue=task_queue,
        workflows=[Theirs],
        activities=[shout],
        sticky_queue_schedule_to_start_timeout=chosen,
        workflow_runner=rules,
    )
    config = theirs.config(active_config=True)
    assert config["sticky_queue_schedule_to_start_timeout"] == chosen
    assert config["max_heartbeat_throttle_interval"] == HEARTBEAT_THROTTLE
    assert config["max_concurrent_workflow_tasks"] == (
        WorkerOptions().max_concurrent_workflow_tasks
    )
    assert config["graceful_shutdown_timeout"] == WorkerOptions().graceful_shutdown
    runner = config["workflow_runner"]
    assert isinstance(runner, SandboxedWorkflowRunner)
    assert runner.restrictions.passthrough_modules > rules.restrictions.passthrough_modules


@pytest.mark.thorough
async def test_their_storage_of_large_payloads_is_used(
    plugin: DurableAdkPlugin, task_queue: str, tmp_path: Path
) -> None:
    """D16, D18: what their converter keeps outside of Temporal, ours keeps there too.

    On a server of its own, as nobody else can read its histories.
    """
    converter = stored_in(tmp_path / "payloads", threshold=0)
    async with TemporalServer.start(data_dir=tmp_path / "own", headless=True) as server:
        client = await connect(server.address, data_converter=converter, plugins=[plugin])
        async with their_worker(client, task_queue):
            assert (await ask(client, task_queue, "geo"))["text"] == "It is Paris."
        history = await client.get_workflow_handle(f"geo-{task_queue}").fetch_history()
    assert "Paris" not in history.to_json()


async def test_two_workers_of_one_client_serve_the_same_apps(
    server: TemporalServer, plugin: DurableAdkPlugin
) -> None:
    """D18: each has its own life; when one ends, the other continues."""
    client = await Client.connect(server.address, plugins=[plugin])
    first, second = (f"test-{uuid.uuid4().hex}" for _ in range(2))
    async with their_worker(client, first):
        async with their_worker(client, second):
            assert (await ask(client, second, "herald"))["text"] == "Hear!"
        assert (await ask(client, first, "herald"))["text"] == "Hear!"


async def test_our_own_worker_takes_a_client_with_the_plugin(
    server: TemporalServer, plugin: DurableAdkPlugin, task_queue: str, tmp_path: Path
) -> None:
    """D18: `worker` serves its own apps then, and nothing is registered twice."""
    client = await Client.connect(server.address, plugins=[plugin])
    store = SqliteSessionService(tmp_path / "other.db")
    other = App(name="other", root_agent=Herald(name="herald"))
    options = WorkerOptions(task_queue=task_queue)
    async with worker(client, apps=[other], session_service=store, options=options):
        assert (await ask(client, task_queue, "other"))["text"] == "Hear!"
    await store.close()


async def test_two_plugins_with_apps_are_told_that_one_would_not_be_served(
    server: TemporalServer, plugin: DurableAdkPlugin, sessions: SqliteSessionService
) -> None:
    """D18: whichever comes from the client; the same one twice is no mistake."""
    other = DurableAdkPlugin(
        apps=[App(name="b", root_agent=Herald(name="b"))], session_service=sessions
    )
    client = await Client.connect(server.address, plugins=[plugin])
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "The same plugin type")  # the SDK's
        Worker(client, task_queue="any", workflows=[Theirs], activities=[shout], plugins=[plugin])
        with pytest.raises(InvalidRequestError, match=r"'b' would not be served.*one plugin"):
            Worker(client, task_queue="any", workflows=[Theirs], plugins=[other])


async def test_a_plugin_without_apps_is_for_clients(server: TemporalServer) -> None:
    """D18: workers get no activities of ours, but clients our converter."""
    client = await Client.connect(server.address, plugins=[DurableAdkPlugin()])
    theirs = Worker(client, task_queue="any", workflows=[Theirs], activities=[shout])
    assert theirs.config(active_config=True)["activities"] == [shout]
    assert client.data_converter != DataConverter.default
    request = InvocationRequest(app="geo", user="u", message="x", invocation_id="e", session="s")
    handle = await Invocations(client, f"none-{uuid.uuid4().hex}").start(request.checked())
    await handle.workflow.terminate()


def test_apps_need_a_store(sessions: SqliteSessionService) -> None:
    """D18: a missing or doubled option fails where the plugin is made."""
    with pytest.raises(InvalidRequestError, match="session_service"):
        DurableAdkPlugin(apps=[herald()])
    with pytest.raises(InvalidRequestError, match="same name"):
        DurableAdkPlugin(apps=[herald(), herald()], session_service=sessions)
