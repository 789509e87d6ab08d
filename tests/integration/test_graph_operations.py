"""What operators do to sessions, done to those whose graphs wait."""

import sqlite3
from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from temporalio.client import Client, WorkflowExecutionStatus

from durable_adk.agents import LlmAgent
from durable_adk.apps import App, EventsCompactionConfig
from durable_adk.artifacts import FileArtifactService
from durable_adk.client import workflow_id
from durable_adk.errors import AlreadyAnsweredError, InvalidRequestError
from durable_adk.events import Event
from durable_adk.graph.routes import DEFAULT_ROUTE
from durable_adk.graph.workflow import Workflow
from durable_adk.models import ScriptedModel
from durable_adk.models.llm_request import LlmRequest
from durable_adk.ops.adk_sessions import StoredSessions, copy_sessions, open_database
from durable_adk.ops.doctor.findings import Kind
from durable_adk.ops.erasure import Erasure, erase, survey
from durable_adk.runners import Runner
from durable_adk.sessions import SqliteSessionService, Status
from durable_adk.tools import LongRunningFunctionTool
from tests.conftest import MakeRunner
from tests.integration.test_graphs import KEY, Row, Runs, answers, reply, said, status
from tests.support.clinic import Clinic
from tests.support.own_server import own_client
from tests.support.scripts import USER, call, state, stored
from tests.support.summaries import Teller, summed
from tests.support.waiting import until
from tests.support.waiting_graphs import (
    KINDS,
    QUESTION,
    ask,
    calling,
    end,
    given,
    is_over,
    told,
    waiting,
)

pytestmark = pytest.mark.replayed


async def tell(runner: Runner, kind: str, text: str) -> Any:
    """Give a graph what it waits for; its output."""
    message = told(kind, text)
    rows = await (said(runner, message) if isinstance(message, str) else reply(runner, message))
    return rows[-1].value


async def newest(runner: Runner) -> str:
    """The id of the newest invocation."""
    return (await stored(runner))[-1].invocation_id


async def has_ended(client: Client, invocation_id: str) -> bool:
    """Whether a workflow has ended."""
    description = await client.get_workflow_handle(workflow_id(KEY, invocation_id)).describe()
    return description.status is not WorkflowExecutionStatus.RUNNING


@pytest.mark.parametrize("kind", KINDS)
async def test_a_graph_that_waits_is_rewound(
    kind: str, make_runner: MakeRunner, client: Client, request: pytest.FixtureRequest
) -> None:
    """REW-1, TRAP-28: its question is gone, its workflow ends, and a message runs it from START."""
    runs = Runs()
    runner = await make_runner(waiting(kind, runs))
    await said(runner, "one")
    lost = await newest(runner)
    assert await status(runner) is Status.PAUSED
    await runner.rewind_async(**USER, rewind_before_invocation_id=lost)
    record = await runner.session_service.get_invocation(KEY, lost)
    assert record is not None
    assert (record.status, record.sealed) == (Status.CANCELLED, True)
    assert await runner.pending(**USER) == []
    assert (await state(runner))["begun"] is None
    if "local" not in request.node.callspec.id:
        await until(lambda: has_ended(client, lost))
    before = await stored(runner)
    if kind != "talks":
        with pytest.raises(InvalidRequestError):
            await tell(runner, kind, "late")
    assert await stored(runner) == before
    await said(runner, "two")
    assert await newest(runner) != lost
    assert await status(runner) is Status.PAUSED
    assert await tell(runner, kind, "yes") == end(kind, "two", "yes")
    assert await status(runner) is Status.COMPLETED
    assert (runs["begin"], runs["last"]) == (2, 1)
    written = {event.id for event in await stored(runner) if event.invocation_id == lost}
    assert written == {event.id for event in before if event.invocation_id == lost}


@pytest.mark.parametrize("kind", ["asks", "calls"])
async def test_a_graph_that_was_not_rewound_gets_the_answer(
    kind: str, make_runner: MakeRunner
) -> None:
    """REW-1, B-19: the question of the invocation that is gone had the same id."""
    runner = await make_runner(waiting(kind, Runs()))
    await said(runner, "one")
    kept = await newest(runner)
    await said(runner, "two")
    lost = await newest(runner)
    await runner.rewind_async(**USER, rewind_before_invocation_id=lost)
    (pending,) = await runner.pending(**USER)
    assert (pending.call_id, pending.invocation_id) == (QUESTION, kept)
    assert (await state(runner))["begun"] == "one"
    assert await tell(runner, kind, "yes") == end(kind, "one", "yes")
    assert await newest(runner) == kept
    assert await status(runner) is Status.COMPLETED


def routed() -> Workflow:
    """A graph whose second node is that of a kind, an agent that waits, or none, by the message."""

    def begin(node_input: str) -> Event:
        return Event(output=f"{node_input}-begun", route=node_input)

    def look(what: str) -> str:
        """Look."""
        return f"seen {what}"

    def order(what: str) -> None:
        """Order."""

    def buy(request: LlmRequest) -> Any:
        responses = [one.response["result"] for one in parts_of(request, "function_response")]
        if len(responses) < 2:
            return call(["look", "order"][len(responses)], what="it")
        return f"{parts_of(request, 'text')[0]} {responses}"

    def talk(request: LlmRequest) -> Any:
        texts = parts_of(request, "text")
        return "what of it?" if len(texts) == 1 else call("finish_task", result=" ".join(texts))

    def last(node_input: Any) -> str:
        return f"last {node_input}"

    asker = LlmAgent(name="asker", model=ScriptedModel(replies=talk), mode="task")
    tools = [look, LongRunningFunctionTool(order)]
    buyer = LlmAgent(name="buyer", model=ScriptedModel(replies=buy), tools=tools)
    ways: dict[Any, Any] = {"asks": ask, "calls": calling(), "talks": asker, "buys": buyer}
    begins = [("START", begin, {**ways, DEFAULT_ROUTE: last})]
    return Workflow(name="wf", edges=[*begins, *((one, last) for one in ways.values())])


def parts_of(request: LlmRequest, kind: str) -> list[Any]:
    """What a prompt has in the parts of a kind."""
    parts = [part for content in request.contents for part in content.parts or []]
    return [value for part in parts if (value := getattr(part, kind))]


@pytest.mark.parametrize(
    ("kind", "output"),
    [
        ("asks", "last yes"),
        ("calls", "last calls-begun! yes after!"),
        ("talks", "last {'result': 'talks-begun what of it? yes'}"),
        ("buys", "last buys-begun ['seen it', 'yes']"),
    ],
    ids=[*KINDS, "buys"],
)
async def test_a_summary_takes_nothing_from_a_graph_that_waits(
    kind: str, output: str, make_runner: MakeRunner
) -> None:
    """CMP-1, CMP-2: outputs, questions, and the turns of agents and tasks are read as before."""
    config = EventsCompactionConfig(compaction_interval=1, overlap_size=0, summarizer=Teller())
    runner = await make_runner(routed(), events_compaction_config=config)
    earlier = "buys" if kind == "talks" else "pass"  # a message would go to the task
    await said(runner, earlier)
    await said(runner, kind)
    name = await newest(runner)
    await (respond(runner) if kind == "talks" else said(runner, "pass"))
    events = await summed(runner, 1 if kind == "talks" else 2)
    (begun,) = [one.id for one in events if one.invocation_id == name and one.output is not None][
        :1
    ]
    assert begun in covered(events)
    rows = await (said(runner, "yes") if kind == "talks" else respond(runner))
    assert rows[-1].value == output
    record = await runner.session_service.get_invocation(KEY, name)
    assert record is not None
    assert record.status is Status.COMPLETED


def covered(events: list[Event]) -> set[str]:
    """The ids of the events that a session's summaries cover."""
    places = {event.id: place for place, event in enumerate(events)}
    ranges = [one.compacted_event_ids for one in events if one.compacted_event_ids]
    return {
        event.id for first, last in ranges for event in events[places[first] : places[last] + 1]
    }


async def respond(runner: Runner) -> list[Row]:
    """Answer the call that waits."""
    (pending,) = await runner.pending(**USER)
    message = answers(pending.name, **{pending.call_id: {"result": "yes"}})
    return await reply(runner, message)


@pytest.mark.parametrize("kind", [*KINDS, "buys"])
async def test_a_graph_that_waits_is_copied(kind: str, tmp_path: Path) -> None:
    """TRAP-28: its events are the same in google-adk's tables and in another store.

    Nothing waits there for an answer: the copy names the call, and a message runs the graph from
    START.
    """
    database = f"sqlite:///{tmp_path / 'adk.db'}"
    async with (
        SqliteSessionService(tmp_path / "ours.db") as ours,
        SqliteSessionService(tmp_path / "copy.db") as copy,
    ):
        async with Runner(app_name="app", node=routed(), session_service=ours) as runner:
            await said(runner, kind)
            events = await stored(runner)
            async with open_database(database, is_target=True) as target:
                await copy_sessions(StoredSessions(store=ours), target)
        async with open_database(database) as source:
            report = await copy_sessions(source, copy)
        asked = {"asks": "wf@1/ask@1", "calls": "wf@1/parent@1/ask@1", "buys": "order"}
        assert report.problems == []
        assert [one.tool for one in report.requests] == ([asked[kind]] if kind in asked else [])
        async with Runner(app_name="app", node=routed(), session_service=copy) as runner:
            assert await stored(runner) == events
            assert await status(runner) is Status.COMPLETED
            assert await runner.pending(**USER) == []
            if kind in asked:
                await refused(runner, events)
            rows = await said(runner, kind)
            assert rows[0].value == f"{kind}-begun"
            assert await status(runner) is Status.PAUSED


async def refused(runner: Runner, events: list[Event]) -> None:
    """Answer the last call of a graph that is over, which changes nothing."""
    (asked,) = events[-1].get_function_calls()
    message = answers(str(asked.name), **{str(asked.id): {"result": "late"}})
    with pytest.raises(InvalidRequestError, match="nothing waits for an answer"):
        await reply(runner, message)
    assert await stored(runner) == events


async def test_a_graph_that_has_ended_takes_no_later_answer(make_runner: MakeRunner) -> None:
    """TOL-41, TRAP-28: no agent of it can go on with one, and it would begin without a message."""
    runner = await make_runner(routed())
    await said(runner, "buys")
    (pending,) = await runner.pending(**USER)
    rows = await respond(runner)
    assert rows[-1].value == "last buys-begun ['seen it', 'yes']"
    before = await stored(runner)
    message = answers(pending.name, **{pending.call_id: {"result": "late"}})
    with pytest.raises(AlreadyAnsweredError):
        await reply(runner, message)
    assert await stored(runner) == before


# ----- operations on the store and on Temporal


@pytest.fixture(scope="module")
async def own(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Client]:
    """A client of a server with nothing else on it."""
    async with own_client(tmp_path_factory.mktemp("own")) as connected:
        yield connected


@pytest.fixture
async def clinic(tmp_path: Path, own: Client) -> AsyncIterator[Clinic]:
    """A store and a worker for an app of each kind."""
    opened = Clinic(tmp_path, own, own.service_client.config.target_host)
    opened.apps |= {kind: App(name=kind, root_agent=waiting(kind, Runs())) for kind in KINDS}
    async with opened.working():
        yield opened
    await opened.store.close()


def left(clinic: Clinic, app: str) -> set[str]:
    """The tables that have rows of an app."""
    with closing(sqlite3.connect(clinic.file)) as connection:
        tables = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
        columns = "SELECT 1 FROM pragma_table_info(?) WHERE name = 'app_name'"
        named = [name for (name,) in tables if connection.execute(columns, (name,)).fetchone()]
        rows = "SELECT 1 FROM {} WHERE app_name = ?"
        return {one for one in named if connection.execute(rows.format(one), (app,)).fetchone()}


@pytest.mark.parametrize("kind", KINDS)
async def test_the_doctor_leaves_a_graph_alone_that_waits(kind: str, clinic: Clinic) -> None:
    """I24: with the answer it ends, and nothing is wrong then either."""
    await clinic.run(kind, "one")
    assert await clinic.findings() == []
    assert (await given(clinic, kind, "yes"))[-1] == end(kind, "go", "yes")
    await until(lambda: is_over(clinic, kind))
    assert await clinic.findings() == []


@pytest.mark.parametrize("kind", KINDS)
async def test_the_doctor_ends_a_graph_whose_workflow_was_terminated(
    kind: str, clinic: Clinic
) -> None:
    """I24, I9: its question is closed, and a message runs the graph from START."""
    await clinic.run(kind, "one")
    await clinic.workflow(kind, "one").terminate()
    (finding,) = await clinic.findings()
    assert (finding.kind, finding.invocation_id) == (Kind.DEAD_HOLDER, "one")
    await clinic.mend()
    assert await clinic.findings() == []
    record = await clinic.store.get_invocation(clinic.key(kind), "one")
    assert record is not None
    assert (record.status, record.sealed) == (Status.ABANDONED, True)
    events = [item.event for item in await clinic.store.read_events(clinic.key(kind))]
    asked = {item.id for event in events for item in event.get_function_calls()}
    assert asked == {item.id for event in events for item in event.get_function_responses()}
    assert events[-1].error_code == "InvocationTerminatedError"
    if kind != "talks":
        with pytest.raises(InvalidRequestError, match="ended before"):
            await given(clinic, kind, "late")
    await clinic.run(kind, "two")
    assert (await given(clinic, kind, "yes"))[-1] == end(kind, "go", "yes")


@pytest.mark.parametrize("kind", KINDS)
async def test_a_graph_whose_session_is_deleted_ends(kind: str, clinic: Clinic) -> None:
    """I24: nothing of it is left but the tombstone, and its workflow writes nothing any more."""
    named = {"app_name": kind, "user_id": clinic.user}
    await clinic.store.create_session(**named, session_id="other")
    await clinic.run(kind, "one")
    assert "notes" in left(clinic, kind) or kind != "calls"
    await clinic.store.delete_session(**named, session_id="s")
    (finding,) = await clinic.findings()
    assert (finding.kind, finding.invocation_id) == (Kind.ORPHAN, "one")
    await clinic.mend()
    assert await clinic.findings() == []
    assert await is_over(clinic, kind)
    await clinic.store.delete_session(**named, session_id="other")
    assert left(clinic, kind) == {"tombstones"}


@pytest.mark.parametrize("kind", KINDS)
async def test_a_user_whose_graph_waits_is_erased(kind: str, clinic: Clinic) -> None:
    """S6, I19: the workflow ends, and neither store nor Temporal has anything of it."""
    await clinic.run(kind, "one")
    erasure = Erasure(
        app=kind,
        user=clinic.user,
        client=clinic.client,
        session_service=clinic.store,
        artifact_service=FileArtifactService(clinic.folder / "artifacts"),
    )

    async def is_seen() -> bool:
        return len((await survey(erasure)).runs.open) == 1

    await until(is_seen)
    await erase(erasure)
    assert (await erase(erasure)).empty
    assert left(clinic, kind) == set()
    assert not [run async for run in clinic.client.list_workflows(f"TaskQueue = '{clinic.user}'")]
