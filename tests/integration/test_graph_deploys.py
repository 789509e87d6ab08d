"""Releases that change a graph while it waits for an answer (D6, D10)."""

import asyncio
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from google.genai import types
from temporalio.client import Client

from durable_adk.apps import App
from durable_adk.errors import AgentNotFoundError
from durable_adk.events import Event
from durable_adk.events.request_input import RequestInput
from durable_adk.graph.workflow import Workflow
from durable_adk.runners import Runner
from durable_adk.sessions import SessionKey, SqliteSessionService, Status
from durable_adk.worker import WorkerOptions, worker
from tests.support.scripts import USER, send
from tests.support.waiting import PATIENCE

pytestmark = pytest.mark.thorough
KEY = SessionKey("app", "u", "s")


def first(node_input: str) -> str:
    """Run before the question."""
    return node_input


def ask(node_input: Any) -> RequestInput:
    """Ask."""
    return RequestInput(interrupt_id="q")


def ins(node_input: Any) -> str:
    """Only the new release has it."""
    return f"ins {node_input}"


def end(node_input: Any) -> str:
    """Run behind the question."""
    return f"end {node_input}"


def renamed(node_input: Any) -> str:
    """The same under another name."""
    return f"renamed {node_input}"


def changed() -> Callable[[Any], str]:
    """Return the code of the new release under the same name."""

    def end(node_input: Any) -> str:
        return f"new {node_input}"

    return end


def app(*nodes: Any) -> App:
    """An app with a chain."""
    return App(name="app", root_agent=Workflow(name="wf", edges=[("START", *nodes)]))


async def answered(runner: Runner) -> list[Event]:
    """Answer the question; what comes of it."""
    response = types.FunctionResponse(id="q", name="any", response={"result": "yes"})
    message = types.Content(role="user", parts=[types.Part(function_response=response)])
    return [event async for event in runner.run_async(**USER, new_message=message)]


RELEASES: dict[str, tuple[tuple[Any, ...], str | None, str]] = {
    "a node before the question": ((first, ins, ask, end), "end yes", "q"),
    "a node behind it": ((first, ask, ins, end), "end yes", "q"),
    "without the first node": ((ask, end), "end yes", "q"),
    "without the question": ((first, end), "end yes", "end hello"),
    "with other code": ((first, ask, changed()), "new yes", "q"),
    "with another name": ((first, ask, renamed), None, "q"),
}
"""The nodes of the new release; the output of the invocation that waited, or None if it fails; and
how the first run of the new graph begins: what it asks, or its output."""


@pytest.mark.parametrize("release", RELEASES)
async def test_a_graph_that_waits_keeps_its_course(
    release: str, client: Client, tmp_path: Path
) -> None:
    """D6: it has the nodes with which it began, and the code of today."""
    nodes, output, begins = RELEASES[release]
    queue, store = uuid.uuid4().hex, SqliteSessionService(tmp_path / "sessions.db")
    options = WorkerOptions(task_queue=queue)

    def runner(served: App) -> Runner:
        return Runner(app=served, session_service=store, client=client, task_queue=queue)

    old, new = app(first, ask, end), app(*nodes)
    async with worker(client, apps=[old], session_service=store, options=options):
        *_, asked = await send(runner(old))
    assert asked.long_running_tool_ids == {"q"}
    async with (
        asyncio.timeout(PATIENCE),
        worker(client, apps=[new], session_service=store, options=options),
    ):
        if output is None:
            with pytest.raises(AgentNotFoundError, match="is no longer in app 'app'"):
                await answered(runner(new))
        else:
            assert (await answered(runner(new)))[-1].output == output
        record = await store.get_invocation(KEY, asked.invocation_id)
        assert record is not None
        assert record.status is (Status.FAILED if output is None else Status.COMPLETED)
        log = await store.read_events(KEY)
        assert not any("ins@" in item.event.node_info.path for item in log)
        last = (await send(runner(new)))[-1]
    assert begins in (last.output, *(last.long_running_tool_ids or ()))
    await store.close()
