"""The session store does not answer for longer than any number of attempts takes."""

import uuid
from pathlib import Path
from typing import Any

import pytest
from temporalio.client import Client

from durable_adk import retrying
from durable_adk.activities import attempt, dependencies
from durable_adk.agents import LlmAgent
from durable_adk.apps import App
from durable_adk.context.activity import ToolContext
from durable_adk.errors import StoreUnavailableError
from durable_adk.memory import InMemoryMemoryService, SearchMemoryResponse
from durable_adk.models import ScriptedModel
from durable_adk.runners import Runner
from durable_adk.sessions import SessionKey, SqliteSessionService
from durable_adk.worker import WorkerOptions, worker
from tests.conftest import MakeRunner
from tests.support.scripts import call, gist, send

pytestmark = pytest.mark.thorough

OUTAGE = 7
"""Attempts of each step in vain; more than may be lost here."""


class Failing(SqliteSessionService):
    """A worker's view of the store: each step's first reads fail."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.down = False
        self.failed = 0

    async def read_state(
        self, key: SessionKey, *, epoch: int | None = None
    ) -> tuple[int, dict[str, Any]]:
        if self.down:
            self.failed += 1
            self.down = self.failed % OUTAGE != 0
            raise StoreUnavailableError("down")
        return await super().read_state(key, epoch=epoch)


class Forgetful(InMemoryMemoryService):
    """Does not answer, again and again."""

    asked = 0

    async def search_memory(self, **about: Any) -> SearchMemoryResponse:
        self.asked += 1
        if self.asked % OUTAGE != 0:
            raise StoreUnavailableError("down")
        return await super().search_memory(**about)


@pytest.mark.parametrize("within", [True, False])
async def test_an_outage_that_a_tool_meets_ends_no_invocation(
    within: bool, make_runner: MakeRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    """F16, I8: it waits `within` its run, or is run again as after a lost worker."""
    monkeypatch.setattr(retrying, "PAUSE", 0.01)
    if not within:
        monkeypatch.setattr(retrying, "SERVICE_TIMEOUT", -1.0)
    memory, keys = Forgetful(), []

    async def recall(tool_context: ToolContext) -> str:
        """Remember."""
        keys.append(tool_context.idempotency_key)
        found = await tool_context.search_memory("capitals")
        return f"{len(found.memories)} found"

    model = ScriptedModel(replies=[call("recall"), "Lima."])
    agent = LlmAgent(name="a", model=model, tools=[recall])
    runner = await make_runner(agent, memory_service=memory)
    events = await send(runner)
    assert [gist(event) for event in events][-1] == "a text Lima."
    assert memory.asked == OUTAGE
    assert len(keys) == (1 if within else OUTAGE)
    assert len(set(keys)) == 1


async def test_an_outage_ends_no_invocation(
    client: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """F16, I11: steps wait for the store as long as it takes, and then run once each."""
    monkeypatch.setattr(attempt, "MAX_LOST", 3)
    monkeypatch.setattr(dependencies, "STORE_TIMEOUT", 0)
    store, ran = Failing(tmp_path / "s.db"), []

    def get_capital(country: str) -> str:
        """Find a capital."""
        ran.append(country)
        store.down = True
        return "Lima"

    replies = [call("get_capital", country="Peru"), "Lima."]
    agent = LlmAgent(name="a", model=ScriptedModel(replies=replies), tools=[get_capital])
    app, queue = App(name="app", root_agent=agent), f"test-{uuid.uuid4().hex}"
    reader = SqliteSessionService(tmp_path / "s.db")
    options = WorkerOptions(task_queue=queue)
    async with (
        worker(client, apps=[app], session_service=store, options=options),
        Runner(
            app=app,
            session_service=reader,
            client=client,
            task_queue=queue,
            auto_create_session=True,
        ) as runner,
    ):
        store.down = True
        told = {"user_id": "u", "session_id": "s", "new_message": "go"}
        events = [event async for event in runner.run_async(**told)]
        place = {"user_id": "u", "session_id": "s"}
        attempts = await runner.attempts(**place, invocation_id=events[-1].invocation_id)
    await store.close()
    await reader.close()
    assert events[-1].text == "Lima."
    assert (ran, store.failed, attempts) == (["Peru"], 2 * OUTAGE, [])
