"""Session stores and Temporal servers that are put back to how they were while graphs wait."""

import asyncio
import sqlite3
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from temporalio.client import Client

from durable_adk import Context
from durable_adk.agents import LlmAgent
from durable_adk.apps import App
from durable_adk.errors import AgentError, SessionRegressedError
from durable_adk.events.request_input import RequestInput
from durable_adk.graph.node import node
from durable_adk.graph.workflow import Workflow
from durable_adk.models import ScriptedModel
from durable_adk.models.llm_request import LlmRequest
from durable_adk.ops.doctor.findings import Kind
from durable_adk.sessions import Status
from tests.chaos.test_restore import assert_same
from tests.chaos.test_temporal_restore import ONE, Past, past, status, working
from tests.support.clinic import Clinic
from tests.support.dumps import copy, restore
from tests.support.own_server import own_client
from tests.support.scripts import call, shape
from tests.support.waiting import PATIENCE, until
from tests.support.waiting_graphs import KINDS, QUESTION, ask, end, given, is_over, waiting

__all__ = ["past"]  # a fixture

AHEAD = 20
"""Steps in one activity."""


@pytest.fixture(scope="module")
async def own(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Client]:
    """A client of a server with nothing else on it."""
    async with own_client(tmp_path_factory.mktemp("own")) as connected:
        yield connected


@pytest.fixture
async def clinic(tmp_path: Path, own: Client) -> AsyncIterator[Clinic]:
    """A store, and no worker yet."""
    opened = Clinic(tmp_path, own, own.service_client.config.target_host)
    yield opened
    await opened.store.close()


def serve(clinic: Clinic, kind: str, graph: Workflow, steps: int = 1) -> None:
    """Have the clinic's workers serve a graph."""
    clinic.apps[kind] = App(name=kind, root_agent=graph, steps_per_activity=steps)


async def shapes(clinic: Clinic, kind: str) -> list[dict[str, Any]]:
    """The session's events without their times."""
    return [shape(item.event) for item in await clinic.store.read_events(clinic.key(kind))]


@pytest.mark.parametrize("steps", [1, AHEAD])
@pytest.mark.parametrize("moment", ["before it began", "while it waited"])
@pytest.mark.parametrize("kind", ["asks", "talks"])
async def test_a_graph_is_put_back_to_its_end(
    kind: str, moment: str, steps: int, clinic: Clinic
) -> None:
    """F37, I21: from a backup of before its message, and from one of before the answer."""
    serve(clinic, kind, waiting(kind, Counter()), steps)
    backup = clinic.folder / "backup.db"
    async with clinic.working():
        await clinic.run(kind, "zero")
        await given(clinic, kind, "no")
        copy(clinic.file, backup)
        await clinic.run(kind, "one")
        if moment == "while it waited":
            copy(clinic.file, backup)
        await given(clinic, kind, "yes")
        await until(lambda: is_over(clinic, kind))
        events, whole, by = await shapes(clinic, kind), clinic.dump(), time.time()
        restore(clinic.file, backup)
        (finding,) = await clinic.findings(app=kind)
        assert finding.kind is Kind.REGRESSED
        await clinic.mend(app=kind)
        assert await clinic.findings(app=kind) == []
        assert await shapes(clinic, kind) == events
        if steps == 1:  # a batch does not report the times of the events of its loop
            assert_same(clinic.dump(), whole, by=by)
        await clinic.run(kind, "two")
        assert (await given(clinic, kind, "yes"))[-1] == end(kind, "go", "yes")


@pytest.mark.parametrize("kind", ["asks", "talks"])
async def test_a_graph_that_waits_is_put_back_and_gets_its_answer(
    kind: str, clinic: Clinic
) -> None:
    """F37, I21: the store also knows again that its task waits for a message."""
    serve(clinic, kind, waiting(kind, Counter()))
    backup = clinic.folder / "backup.db"
    async with clinic.working():
        await clinic.run(kind, "zero")
        await given(clinic, kind, "no")
        copy(clinic.file, backup)
        await clinic.run(kind, "one")
        whole, by = clinic.dump(), time.time()
        restore(clinic.file, backup)
        await clinic.mend(app=kind)
        assert await clinic.findings(app=kind) == []
        assert_same(clinic.dump(), whole, by=by)
        assert (await given(clinic, kind, "yes"))[-1] == end(kind, "go", "yes")


def listing() -> Workflow:
    """A graph that asks after a parallel worker."""

    def numbers(node_input: str) -> list[int]:
        return [1, 2, 3]

    def item(node_input: int) -> int:
        return node_input

    each = node(item, parallel_worker=True, max_parallel_workers=2)
    return Workflow(name="wf", edges=[("START", numbers, each, ask)])


@pytest.mark.parametrize("steps", [1, AHEAD])
@pytest.mark.parametrize("kind", [*KINDS, "lists"])
async def test_an_older_store_takes_no_message_while_a_graph_waits(
    kind: str, steps: int, clinic: Clinic
) -> None:
    """I21: whatever has stored the question; and the doctor puts all of it back, or nothing.

    The outputs of called nodes and of items are only in the store.
    """
    graph = listing() if kind == "lists" else waiting(kind, Counter())
    serve(clinic, kind, graph, steps)
    backup = clinic.folder / "backup.db"
    async with clinic.working():
        await clinic.run(kind, "one")
        events = await shapes(clinic, kind)
        copy(clinic.file, backup)
        cut(backup)
        restore(clinic.file, backup)
        older = clinic.dump()
    async with clinic.working():  # anew, so that no memory of it is left
        with pytest.raises(SessionRegressedError, match="durable-adk doctor"):
            await asyncio.wait_for(clinic.run(kind, "two"), PATIENCE)
        await clinic.workflow(kind, "two").terminate()
        assert clinic.dump() == older
        (finding,) = await clinic.findings(app=kind)
        assert finding.kind is Kind.REGRESSED
        await clinic.mend(app=kind)
        if kind in ("calls", "lists"):
            assert "is in no history" in finding.problem
            assert clinic.dump() == older
        else:
            assert await clinic.findings(app=kind) == []
            assert await shapes(clinic, kind) == events
            assert (await given(clinic, kind, "yes"))[-1] == end(kind, "go", "yes")


def cut(backup: Path) -> None:
    """Make a backup older: of the open invocation it has the message and the first output."""
    statements = [
        "DELETE FROM events WHERE seq > 2",
        "UPDATE sessions SET revision = 2, lease_invocation_id = 'one', awaiting_message = NULL",
        "UPDATE invocations SET status = 'running', pauses = 0",
        "DELETE FROM notes",
    ]
    with closing(sqlite3.connect(backup)) as connection, connection:
        for statement in statements:
            connection.execute(statement)


async def test_a_graph_that_has_lost_what_it_has_called_fails(clinic: Clinic) -> None:
    """I21: with an error that says it; no node is called again behind the answer."""
    serve(clinic, "calls", waiting("calls", Counter()))
    async with clinic.working():
        await clinic.run("calls", "one")
        clinic.sql("DELETE FROM notes")
        with pytest.raises(AgentError, match="lacks what wf@1/parent@1 has called"):
            await given(clinic, "calls", "yes")
        record = await clinic.store.get_invocation(clinic.key("calls"), "one")
        assert record is not None
        assert record.status is Status.FAILED
        assert await clinic.findings(app="calls") == []
        await clinic.run("calls", "two")
        assert (await given(clinic, "calls", "yes"))[-1] == end("calls", "go", "yes")


def asking_twice(kind: str) -> Workflow:
    """A graph that waits for two answers, one after the other, and gives both."""

    def again(node_input: Any) -> RequestInput:
        return RequestInput(interrupt_id=QUESTION, message=str(node_input))

    def talk(request: LlmRequest) -> Any:
        texts = [part.text for content in request.contents for part in content.parts or []]
        if len(texts) < 5:
            return f"what {len(texts)}?"
        return call("finish_task", result=f"{texts[2]} {texts[4]}")

    @node(rerun_on_resume=True)
    async def parent(ctx: Context, node_input: str) -> str:
        return f"{await ctx.run_node(ask)} {await ctx.run_node(again, 'more?')}"

    def last(node_input: Any) -> str:
        return f"last {node_input}"

    asker = LlmAgent(name="asker", model=ScriptedModel(replies=talk), mode="task")
    nodes = {"asks": (ask, again), "calls": (parent,), "talks": (asker,)}[kind]
    return Workflow(name="wf", edges=[("START", *nodes, last)])


@pytest.mark.parametrize("kind", KINDS)
async def test_an_answer_that_temporal_has_forgotten_is_given_to_a_graph_again(
    kind: str, past: Past
) -> None:
    """F38, I16: also a message to a task, and one whose question came from a called node."""
    async with past.serving() as clinic:
        serve(clinic, kind, asking_twice(kind))
        async with working(clinic):
            await clinic.run(kind, ONE)
            past.remember()
            await given(clinic, kind, "yes")
            assert await status(clinic, kind) is Status.PAUSED
    whole = await shapes(clinic, kind)
    past.restore()
    async with past.serving() as clinic, working(clinic):
        (finding,) = await clinic.findings()
        assert finding.kind is Kind.BEHIND
        await clinic.mend()

        async def is_settled() -> bool:
            return await clinic.findings(busy=True) == []

        await until(is_settled)
        assert await shapes(clinic, kind) == whole
        output = (await given(clinic, kind, "no"))[-1]
        told = {"asks": "no", "calls": "yes no", "talks": "{'result': 'yes no'}"}[kind]
        assert output == f"last {told}"
        await until(lambda: is_over(clinic, kind, ONE))
        assert await clinic.findings() == []
