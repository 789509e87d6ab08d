"""Streamed answers whose chunks travel over a Redis (D8)."""

import asyncio
import uuid
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, aclosing
from pathlib import Path

import pytest
from temporalio.client import Client

from durable_adk.agents import LlmAgent
from durable_adk.apps import App
from durable_adk.embedded.stores import folder_stores
from durable_adk.partials import RedisPartials
from durable_adk.runners import Runner
from durable_adk.wire.run_config import RunConfig, StreamingMode
from durable_adk.worker import WorkerOptions, worker
from tests.support.commands import EXAMPLE, Terminal
from tests.support.redis import RedisServer, running
from tests.support.streams import StreamingModel, brief
from tests.support.waiting import PATIENCE

pytestmark = pytest.mark.thorough

WORDS = ["It ", "is ", "Paris."]


@pytest.fixture
async def own_redis() -> AsyncIterator[RedisServer]:
    """A Redis that this test alone uses, and may end."""
    async with running() as server:
        yield server


@pytest.mark.parametrize("dies", [False, True])
async def test_chunks_come_while_redis_lives_and_the_answer_always(
    client: Client,
    own_redis: RedisServer,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    dies: bool,
) -> None:
    """D8: the setting is all there is to do; a Redis that dies costs chunks and no run."""
    monkeypatch.setenv("DURABLE_ADK_PARTIALS", own_redis.url())
    gate, queue = asyncio.Event(), f"test-{uuid.uuid4().hex}"
    model = StreamingModel(turns=[["It ", gate, "is ", "Paris.", "It is Paris."]])
    app = App(name="app", root_agent=LlmAgent(name="a", model=model))
    async with AsyncExitStack() as stack:
        theirs, ours = [await stack.enter_async_context(folder_stores(tmp_path)) for _ in range(2)]
        assert isinstance(ours.partials, RedisPartials)
        options = WorkerOptions(task_queue=queue)
        serving = worker(client, apps=[app], options=options, **theirs.arguments())
        await stack.enter_async_context(serving)
        runner = await stack.enter_async_context(
            Runner(
                app=app,
                client=client,
                task_queue=queue,
                auto_create_session=True,
                **ours.arguments(),
            )
        )
        run = runner.run_async(
            user_id="u",
            session_id="s",
            new_message="hello",
            run_config=RunConfig(streaming_mode=StreamingMode.SSE),
        )
        seen: list[str] = []
        async with aclosing(run), asyncio.timeout(PATIENCE):
            async for event in run:
                seen.append(brief(event))
                if seen[-1] == "~It ":
                    if dies:
                        await own_redis.kill()
                    gate.set()
    expected = ["~It "] if dies else [f"~{word}" for word in WORDS]
    assert seen == [*expected, "It is Paris."]


async def test_commands_take_it_from_the_environment(
    own_redis: RedisServer, tmp_path: Path
) -> None:
    """D8: worker and client of one command, and no password where it cannot be reached (S14)."""
    terminal = Terminal(tmp_path)
    try:
        for url in (own_redis.url(), "redis://:hunter2@127.0.0.1:1/0"):
            done = await asyncio.to_thread(
                terminal.run, "run", EXAMPLE, "Capital of Peru?", DURABLE_ADK_PARTIALS=url
            )
            assert done.returncode == 0, done.stderr
            assert "Lima" in done.stdout
            assert "hunter2" not in done.stdout + done.stderr
    finally:
        terminal.close()
