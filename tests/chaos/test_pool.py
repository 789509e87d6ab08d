"""A store whose connections are fewer than those who want one."""

import asyncio
import uuid
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection, text
from temporalio.client import Client

from durable_adk.errors import StoreUnavailableError
from durable_adk.runners import Runner
from durable_adk.sessions import DatabaseSessionService, SessionKey, Status
from durable_adk.sql import database
from durable_adk.worker import WorkerOptions, worker
from tests.support.chaos_apps import Traces, chaos_apps
from tests.support.postgres import HAS_POSTGRES, Databases
from tests.support.scripts import gist
from tests.support.waiting import PATIENCE, until

pytestmark = pytest.mark.skipif(not HAS_POSTGRES, reason="needs PostgreSQL's wheel")

POOL, RUNS = 2, 16


@pytest.fixture
async def url(postgres: Databases) -> str:
    """A database."""
    return await postgres.make()


@pytest.fixture
async def store(url: str, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[DatabaseSessionService]:
    """A store with a small pool."""
    make: Callable[..., Any] = database.make_engine

    def small(*args: Any, **options: Any) -> Any:
        sizes = {"pool_size": POOL, "max_overflow": 0} if "pool_timeout" in options else {}
        return make(*args, **options, **sizes)

    service = DatabaseSessionService(url)
    with monkeypatch.context() as patch:
        patch.setattr(database, "make_engine", small)
        await service.prepare()
    yield service
    await service.close()


class Taken:
    """Connections that are kept until they are returned."""

    def __init__(self) -> None:
        self.count = 0
        self.over = False

    def __call__(self, connection: Connection) -> None:
        """Keep one."""
        self.count += 1
        while not self.over:
            connection.execute(text("SELECT pg_sleep(0.1)"))


@pytest.fixture
async def theirs(url: str) -> AsyncIterator[DatabaseSessionService]:
    """The same store, as clients have it in processes of their own."""
    service = DatabaseSessionService(url)
    yield service
    await service.close()


async def test_a_pool_that_is_exhausted_delays_runs_and_ends_none(
    store: DatabaseSessionService,
    theirs: DatabaseSessionService,
    client: Client,
    tmp_path: Path,
) -> None:
    """F20, I22: a worker's connections are all taken for a while; then many runs share the two."""
    app, queue = chaos_apps(tmp_path)["charge"], f"pool-{uuid.uuid4().hex}"

    async def run(session: str) -> list[str]:
        async with Runner(
            app=app,
            session_service=theirs,
            client=client,
            task_queue=queue,
            auto_create_session=True,
        ) as runner:
            events = runner.run_async(
                user_id=queue, session_id=session, new_message="go", invocation_id=session
            )
            return [gist(event) async for event in events]

    async with worker(
        client, apps=[app], session_service=store, options=WorkerOptions(task_queue=queue)
    ):
        control = await run("alone")
        sessions = [f"s{number}" for number in range(RUNS)]
        runs = [asyncio.create_task(run(session)) for session in sessions[: RUNS // 2]]
        postgres = store._store.database
        keep = Taken()
        taken = [asyncio.create_task(postgres.read(keep)) for _ in range(POOL)]
        await until(lambda: keep.count == POOL)
        with pytest.raises(StoreUnavailableError):
            await store.read_state(SessionKey("charge", queue, "alone"))
        keep.over = True
        await asyncio.gather(*taken)
        runs += [asyncio.create_task(run(session)) for session in sessions[RUNS // 2 :]]
        async with asyncio.timeout(2 * PATIENCE):
            outcomes = await asyncio.gather(*runs)
    assert outcomes == [control] * RUNS
    records = await store.invocations_by_time(app_name="charge", user_id=queue)
    assert {record.status for _, record in records} == {Status.COMPLETED}
    traces = Traces(tmp_path)
    assert traces.effects == RUNS + 1
