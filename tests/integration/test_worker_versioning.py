"""Worker Versioning: which build continues an invocation (D6, F35)."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from google.genai import types
from temporalio.api.enums.v1 import EventType
from temporalio.client import Client, WorkflowExecutionStatus

from durable_adk import __version__
from durable_adk.agents import BaseAgent, InvocationContext, LlmAgent
from durable_adk.apps import App
from durable_adk.client import connect
from durable_adk.embedded import TemporalServer
from durable_adk.errors import InvalidRequestError
from durable_adk.events import Event
from durable_adk.models import ScriptedModel
from durable_adk.settings import Limits, Settings
from durable_adk.tools import AgentTool
from durable_adk.worker import Versioning
from tests.support.commands import EXAMPLE, Terminal
from tests.support.deploy_places import Place, set_current
from tests.support.streams import StreamingModel, a_call
from tests.support.waiting import stays, until

pytestmark = pytest.mark.thorough

NAP = 5.0
"""Seconds: longer than a worker takes to end."""
STUCK = "[TMPRL1100] Nondeterminism"


def measure() -> int:
    """A step of a body."""
    return 1


class Body(BaseAgent):
    """An agent's own code: texts, and what the workflow's history knows of."""

    script: tuple[str, ...]

    async def _run_async_impl(self, ctx: InvocationContext) -> AsyncGenerator[Event, None]:
        for word in self.script:
            if word == "nap":
                await asyncio.sleep(NAP)
            elif word == "step":
                await ctx.step(measure)
            else:
                content = types.Content(role="model", parts=[types.Part(text=word)])
                yield Event(author=self.name, content=content)


def release(*script: str) -> App:
    """An app of one agent."""
    return App(name="app", root_agent=Body(name="b", script=script))


OLD = release("one", "nap", "two")
OTHER = release("uno", "step", "due")
"""It goes another way: a step where the old one has a timer."""
RENAMED = App(name="app", root_agent=Body(name="c", script=("one", "nap", "two")))
ALIKE = release("one", "nap", "zwei")


@pytest.fixture(scope="module")
async def own_client(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Client]:
    """Of a server of our own: not every history here replays on the last code it has seen."""
    folder = tmp_path_factory.mktemp("versioning")
    async with TemporalServer.start(data_dir=folder, headless=True) as server:
        yield await connect(server.address)


@pytest.fixture
async def place(own_client: Client, tmp_path: Path) -> AsyncIterator[Place]:
    """A task queue and a store."""
    async with Place.opened(own_client, tmp_path) as place:
        yield place


class Deployment:
    """The builds of a place."""

    def __init__(self, place: Place, **versioning: bool) -> None:
        self._place = place
        self._versioning = versioning

    def build(self, name: str, app: App, **options: Any) -> Any:
        """A worker of a build."""
        queue = self._place.queue
        versioning = Versioning(deployment=queue, build_id=name, **self._versioning)
        return self._place.worker(app, versioning=versioning, **options)

    async def set_current(self, build: str, *, workerless: bool = False) -> None:
        """Have new invocations run on a build."""
        place = self._place
        await set_current(place.client, place.queue, build, workerless=workerless)

    async def build_of(self, invocation_id: str | None = None) -> str:
        """The build that an invocation was on last."""
        description = await self._place.handle(invocation_id).describe()
        info = description.raw_description.workflow_execution_info
        return info.versioning_info.deployment_version.build_id


async def texts(place: Place, runner: Any) -> list[str]:
    """What the agent has said."""
    return [line.removeprefix("b text ") for line in await place.log(runner) if line[:2] == "b "]


async def kinds(place: Place) -> "list[EventType.ValueType]":
    """Of the events in the history of the last run of the invocation."""
    return [event.event_type for event in (await place.handle().fetch_history()).events]


async def begun(place: Place, runner: Any) -> None:
    """Start an invocation; its body naps."""
    await place.start(runner)

    async def naps() -> bool:
        return EventType.EVENT_TYPE_TIMER_STARTED in await kinds(place)

    await until(naps)
    await until(lambda: texts(place, runner))
    assert await texts(place, runner) == ["one"]


@pytest.mark.parametrize("app", [OTHER, RENAMED], ids=["changed", "renamed"])
async def test_without_versioning_a_changed_body_waits_for_its_code(place: Place, app: App) -> None:
    """D6, F35: its workflow task fails with the reason; it continues when the code is back."""

    async def stuck() -> bool:
        history = await place.handle().fetch_history()
        failures = [event.workflow_task_failed_event_attributes for event in history.events]
        return any(failed.failure.message.startswith(STUCK) for failed in failures)

    async with place.worker(OLD) as runner:
        await begun(place, runner)
    async with place.worker(app):
        await until(stuck)
    async with place.worker(OLD) as runner:
        assert await place.end() == "completed"
        assert await texts(place, runner) == ["one", "two"]


@pytest.mark.parametrize("events", [4000, 1], ids=["in one run", "continued as new"])
async def test_a_pinned_invocation_ends_on_the_build_it_began_on(place: Place, events: int) -> None:
    """D6, D10, F35, F36: it waits for its build; new ones run on the new one meanwhile."""
    deployment, limits = Deployment(place), Limits(max_history_events=events)

    async def waits() -> bool:
        return (await kinds(place))[-1] == EventType.EVENT_TYPE_WORKFLOW_TASK_SCHEDULED

    async with deployment.build("1", OLD, limits=limits) as runner:
        await deployment.set_current("1")
        await begun(place, runner)
    async with deployment.build("2", OTHER, limits=limits) as runner:
        await deployment.set_current("2")
        await until(waits)
        await place.start(runner, "another", session="s2")
        assert await place.end("another", session="s2") == "completed"
        description = await place.handle().describe()
        assert description.status is WorkflowExecutionStatus.RUNNING
        assert await texts(place, runner) == ["one"]
    async with deployment.build("1", OLD, limits=limits) as runner:
        assert await place.end() == "completed"
        assert await texts(place, runner) == ["one", "two"]
    assert await deployment.build_of() == "1"
    assert (len(await place.histories()) > 2) == (events == 1)


async def test_an_agent_used_as_a_tool_runs_on_its_callers_build(place: Place) -> None:
    """D6, F35: its child workflow begins after a build without workers has become current."""
    deployment, answering = Deployment(place), asyncio.Event()
    expert = LlmAgent(name="expert", model=ScriptedModel(replies=["so"]))
    model = StreamingModel(turns=[[answering, a_call("expert", request="how?")], ["done"]])
    desk = LlmAgent(name="desk", model=model, tools=[AgentTool(expert)])
    async with deployment.build("1", App(name="app", root_agent=desk)) as runner:
        await deployment.set_current("1")
        await place.start(runner)
        await until(lambda: model.asked)  # it has begun on its build
        await deployment.set_current("2", workerless=True)
        answering.set()
        assert await place.end() == "completed"
        assert (await place.log(runner))[-1] == "desk text done"


async def test_auto_upgrade_moves_open_invocations_to_the_current_build(place: Place) -> None:
    """D6, F35: the new code continues where the old one was, and has to go the same way."""
    deployment = Deployment(place, auto_upgrade=True)
    async with deployment.build("1", OLD) as runner:
        await deployment.set_current("1")
        await begun(place, runner)
    async with deployment.build("2", ALIKE) as runner:
        await deployment.set_current("2")
        assert await place.end() == "completed"
        assert await texts(place, runner) == ["one", "zwei"]
    assert await deployment.build_of() == "2"


async def test_without_versioning_the_build_is_this_package(place: Place) -> None:
    """Temporal's SDK would hash all loaded code, which takes up to a second of each start."""
    async with place.worker(OTHER) as runner:
        await place.start(runner)
        await place.end()
    history = await place.handle().fetch_history()
    done = [event.workflow_task_completed_event_attributes for event in history.events]
    builds = {one.worker_version.build_id for one in done if one.HasField("worker_version")}
    assert builds == {f"durable-adk-{__version__}"}


async def test_a_message_waits_until_a_build_is_current(place: Place) -> None:
    """F36: a worker of a build that nobody has made current takes nothing, and loses nothing."""
    deployment = Deployment(place)
    async with deployment.build("1", OTHER) as runner:
        await place.start(runner)

        async def is_silent() -> bool:
            return await texts(place, runner) == []

        await stays(is_silent)
        await deployment.set_current("1")
        assert await place.end() == "completed"


async def test_the_command_line_serves_a_build(own_client: Client, tmp_path: Path) -> None:
    """D6: one option away, deployment named after the task queue."""
    terminal = Terminal(tmp_path)
    address, queue = own_client.service_client.config.target_host, "cli-build"
    options = ["--address", address, "--store", "s.db", "--task-queue", queue]
    serving = terminal.start("worker", EXAMPLE, *options, "--build-id", "7", "--auto-upgrade")
    try:
        await set_current(own_client, queue, "7")
        question = "What is the capital of Peru?"
        done = await asyncio.to_thread(terminal.run, "run", EXAMPLE, question, *options)
        assert "Lima" in done.stdout
        await asyncio.to_thread(terminal.stop, serving)
        assert serving.returncode == 0
    finally:
        terminal.close()


def parsed(
    *, build_id: str | None = None, auto_upgrade: bool = False, **settings: Any
) -> Versioning | None:
    """What an option and settings come to."""
    return Versioning.parse(
        Settings(**settings), task_queue="queue", build_id=build_id, auto_upgrade=auto_upgrade
    )


def test_options_and_settings_say_which_build_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """D6: without a build id there is no versioning; an option goes before a setting."""
    assert parsed() is None
    assert parsed(deployment="") is None
    assert parsed(build_id="1") == Versioning(deployment="queue", build_id="1")
    monkeypatch.setenv("DURABLE_ADK_BUILD_ID", "2")
    monkeypatch.setenv("DURABLE_ADK_DEPLOYMENT", "shop")
    monkeypatch.setenv("DURABLE_ADK_AUTO_UPGRADE", "1")
    assert parsed() == Versioning(deployment="shop", build_id="2", auto_upgrade=True)
    assert parsed(build_id="3") == Versioning(deployment="shop", build_id="3", auto_upgrade=True)


@pytest.mark.parametrize(
    "half",
    [
        {"auto_upgrade": True},
        {"deployment": "shop"},
        {"build_id": ""},
        {"build_id": "1", "deployment": "a.b"},
        {"build_id": "x" * 300},
    ],
)
def test_half_a_configuration_is_refused(half: dict[str, Any]) -> None:
    """D11: at the start, and not at each poll."""
    with pytest.raises(InvalidRequestError):
        parsed(**half)
