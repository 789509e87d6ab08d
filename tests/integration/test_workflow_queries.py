"""Queries of a workflow whose last news no workflow task has brought."""

import uuid

from temporalio import workflow
from temporalio.client import Client
from temporalio.worker import UnsandboxedWorkflowRunner, Worker

from durable_adk.workflows.runner import guarded, joined


@workflow.defn
class Counting:
    """Counts signals, in an endless run."""

    def __init__(self) -> None:
        self._count = 0

    @workflow.signal
    def count(self) -> None:
        """Count one."""
        self._count += 1

    @workflow.query
    def counted(self) -> int:
        """How many were counted."""
        return self._count

    @workflow.run
    async def run(self) -> None:
        """Wait for ever."""
        await workflow.wait_condition(lambda: False)


async def test_a_terminated_workflow_tells_what_its_last_task_left(client: Client) -> None:
    """There is no task that a query could wait for; what came behind the last one had no effect."""
    task_queue = f"queries-{uuid.uuid4().hex}"

    def worker() -> Worker:
        runner = guarded(UnsandboxedWorkflowRunner())
        made = Worker(client, task_queue=task_queue, workflows=[Counting], workflow_runner=runner)
        joined(runner, made)
        return made

    async with worker():
        handle = await client.start_workflow(Counting.run, id=task_queue, task_queue=task_queue)
        await handle.signal(Counting.count)
        assert await handle.query(Counting.counted) == 1
    await handle.signal(Counting.count)
    await handle.terminate()
    async with worker():
        assert [await handle.query(Counting.counted) for _ in range(2)] == [1, 1]
