"""Queries of a workflow between two of its tasks, and in the middle of one."""

import asyncio
import threading
import uuid
from datetime import timedelta
from typing import Any

import pytest
from temporalio import activity, workflow
from temporalio.client import Client, WorkflowHandle
from temporalio.worker import Replayer, UnsandboxedWorkflowRunner, Worker

from durable_adk.workflows.runner import bind, guarded
from tests.support.waiting import PATIENCE, until

SOON = timedelta(seconds=PATIENCE)
ASKED, ANSWER = threading.Event(), threading.Event()
"""A query is under way; it may end."""


@pytest.fixture(autouse=True)
def free() -> None:
    """Queries end at once, unless a test says otherwise."""
    ASKED.clear()
    ANSWER.set()


@activity.defn
async def store() -> None:
    """Store something, in no time."""


@activity.defn
async def stored() -> None:
    """What comes after that."""


@activity.defn
async def counted() -> None:
    """What comes after the second signal."""


@workflow.defn
class Counting:
    """Counts signals, and stores something after the first."""

    def __init__(self) -> None:
        self._count = 0

    @workflow.signal
    def count(self) -> None:
        """Count one."""
        self._count += 1

    @workflow.query
    def counted(self) -> int:
        """How many were counted; it ends when it may."""
        ASKED.set()
        ANSWER.wait(PATIENCE)
        return self._count

    @workflow.run
    async def run(self) -> None:
        """End after the second signal."""
        await asyncio.gather(self._stored(), self._counted())

    async def _stored(self) -> None:
        await workflow.wait_condition(lambda: self._count > 0)
        await workflow.execute_local_activity(store, schedule_to_close_timeout=SOON)
        await workflow.execute_activity(stored, start_to_close_timeout=SOON)

    async def _counted(self) -> None:
        await workflow.wait_condition(lambda: self._count > 1)
        await workflow.execute_activity(counted, start_to_close_timeout=SOON)


def a_worker(client: Client, task_queue: str) -> Worker:
    """A worker of that workflow, with a runner of ours."""
    runner = guarded(UnsandboxedWorkflowRunner())
    made = Worker(
        client,
        task_queue=task_queue,
        workflows=[Counting],
        activities=[store, stored, counted],
        workflow_runner=runner,
    )
    bind(runner, made)
    assert made._workflow_worker
    made._workflow_worker._deadlock_timeout_seconds = None  # else a query may not wait for 2 s
    return made


async def _is_in_task(handle: WorkflowHandle[Any, Any], number: int) -> bool:
    """Whether a task of the workflow is under way."""
    events = (await handle.fetch_history()).events
    begun = [one for one in events if one.HasField("workflow_task_started_event_attributes")]
    return len(begun) == number and events[-1] == begun[-1]


async def test_a_terminated_workflow_tells_what_its_last_task_left(client: Client) -> None:
    """There is no task that a query could wait for; what came behind the last one had no effect."""
    task_queue = f"queries-{uuid.uuid4().hex}"
    async with a_worker(client, task_queue):
        handle = await client.start_workflow(Counting.run, id=task_queue, task_queue=task_queue)
        assert await handle.query(Counting.counted) == 0
    await handle.signal(Counting.count)
    await handle.terminate()
    async with a_worker(client, task_queue):
        assert [await handle.query(Counting.counted) for _ in range(2)] == [0, 0]


async def test_a_query_that_ends_a_task_lets_no_news_overtake_a_local_activity(
    client: Client,
) -> None:
    """I13: in a replay the activity ends in the task that has answered the query."""
    await until(lambda: _query_ends_a_task(client))


async def _query_ends_a_task(client: Client) -> bool:
    """Do what the test is about; False if the query has come to the server behind the task."""
    task_queue = f"queries-{uuid.uuid4().hex}"
    async with a_worker(client, task_queue):
        handle = await client.start_workflow(Counting.run, id=task_queue, task_queue=task_queue)
        assert await handle.query(Counting.counted) == 0
    ASKED.clear()
    ANSWER.clear()
    await handle.signal(Counting.count)
    query: asyncio.Task[Any] = asyncio.create_task(handle.query(Counting.counted))
    for _ in range(5):  # nothing shows whether the server has it: this has it go before the rest
        await handle.describe()
    async with a_worker(client, task_queue):
        await until(ASKED.is_set)
        in_task = await _is_in_task(handle, 2)
        await handle.signal(Counting.count)
        ANSWER.set()
        answer = await query
        await handle.result()
    replayer = Replayer(workflows=[Counting], workflow_runner=UnsandboxedWorkflowRunner())
    await replayer.replay_workflow(await handle.fetch_history())
    assert answer == 1 or not in_task
    return in_task
