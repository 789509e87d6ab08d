"""Graphs whose workflows an operator resets while they wait (I11)."""

import asyncio
import uuid
from collections import Counter
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest
from temporalio.client import Client

from durable_adk.activities.commit.notes import RESULT
from durable_adk.events import Event
from durable_adk.events.request_input import RequestInput
from durable_adk.graph.node import node
from durable_adk.graph.retry_config import NodeRetryConfig
from durable_adk.graph.workflow import Workflow
from durable_adk.runners import Runner
from durable_adk.sessions import SessionKey, SqliteSessionService
from tests.integration.test_graphs import answer
from tests.integration.test_reset import reset, serving
from tests.support.waiting import PATIENCE, until

pytestmark = pytest.mark.thorough


class WithoutNotes(SqliteSessionService):
    """A store without the notes of steps: it was not available when they were to be written."""

    async def read_notes(self, *args: Any, **options: Any) -> Any:
        """Find none of these."""
        noted = await super().read_notes(*args, **options)
        return [] if options["kind"] == RESULT else noted


def telling(runs: Counter[str]) -> Workflow:
    """Nodes whose events each say only a part of how they ended."""

    @node(retry_config=NodeRetryConfig(max_attempts=2, initial_delay=0, jitter=0))
    def flaky(ctx: Any) -> str:
        runs["flaky"] += 1
        if ctx.attempt_count == 1:
            raise ValueError(uuid.uuid4().hex)
        return "second"

    async def early(node_input: str) -> AsyncGenerator[Event, None]:
        runs["early"] += 1
        yield Event(message=uuid.uuid4().hex)
        yield Event(output=f"{node_input} early", route="ask")
        yield Event(message=uuid.uuid4().hex)

    def ask(node_input: str) -> RequestInput:
        runs["ask"] += 1
        return RequestInput(message=node_input)

    def last(node_input: Any) -> Any:
        runs["last"] += 1
        return node_input

    return Workflow(name="wf", edges=[("START", flaky, early, {"ask": ask}), (ask, last)])


@pytest.mark.parametrize("kind", [SqliteSessionService, WithoutNotes])
async def test_a_reset_graph_goes_on_with_what_is_stored(
    client: Client, tmp_path: Path, kind: type[SqliteSessionService]
) -> None:
    """I8, I11: no code runs again, and failures, outputs, routes and questions stay what they were.

    Also if the notes of the steps are missing: the events say it.
    """
    runs, store, queue = Counter[str](), kind(tmp_path / "s.db"), uuid.uuid4().hex
    graph, key = telling(runs), SessionKey("a", "u", "s")
    name = f"reset-{queue}"
    request = {"app": "a", "user": key.user_id, "session": key.session_id, "message": "go"}
    async with (
        asyncio.timeout(PATIENCE),
        serving(client, queue, graph, store),
        Runner(
            app_name="a", node=graph, session_service=store, client=client, task_queue=queue
        ) as runner,
    ):
        await client.start_workflow("Invocation", request, id=name, task_queue=queue)
        waiting = await until(lambda: runner.pending(user_id="u", session_id="s"))
        before = await store.read_events(key)
        await reset(client, name)
        message = answer(waiting[0].call_id, "yes")
        async for _ in runner.run_async(user_id="u", session_id="s", new_message=message):
            pass
        result = await client.get_workflow_handle(name).result()
        events = await store.read_events(key)
    assert result["status"] == "completed"
    assert events[: len(before)] == before
    assert [one.event.output for one in events[len(before) :]] == [None, "yes", "yes"]
    assert runs == {"flaky": 2, "early": 1, "ask": 1, "last": 1}
