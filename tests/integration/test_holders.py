"""Workflow ids that were used before: which workflow a lease owner means, and who runs (D7)."""

import uuid
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

from temporalio.api.enums.v1 import EventType
from temporalio.client import Client, WorkflowExecutionStatus, WorkflowHandle

from durable_adk.client.invocations import Invocations
from durable_adk.client.lease_owners import LeaseOwners
from durable_adk.sessions import InvocationRecord, SessionKey, Status
from durable_adk.sessions.lease_owner import TemporalLeaseOwner
from durable_adk.wire.messages import InvocationRequest

Run = WorkflowHandle[Any, Any]


class Runs(NamedTuple):
    """Two workflows of one id, of which the second runs; nobody polls their queue."""

    first: Run
    second: Run

    def record(self, run: Run) -> InvocationRecord:
        """Of an invocation that one of them runs."""
        lease_owner = TemporalLeaseOwner("default", run.first_execution_run_id or "", run.id)
        return InvocationRecord(
            invocation_id="i",
            status=Status.RUNNING,
            epoch=1,
            lease_owner=str(lease_owner),
            start_seq=1,
        )


@asynccontextmanager
async def two_runs(client: Client) -> AsyncGenerator[Runs]:
    """They end with the block."""
    name = uuid.uuid4().hex

    async def start() -> Run:
        return await client.start_workflow("Nobody", id=name, task_queue=name)

    first = await start()
    await first.terminate()
    second = await start()
    yield Runs(first, second)
    await second.terminate()


async def test_a_owner_whose_workflow_id_another_one_has_taken_is_gone(client: Client) -> None:
    """I24: or its session would wait for a workflow that does not know of it."""
    watcher = LeaseOwners(client)
    async with two_runs(client) as runs:
        lease_owners = [runs.record(run).lease_owner for run in runs]
        assert [await watcher.is_alive(lease_owner) for lease_owner in lease_owners] == [
            False,
            True,
        ]


async def test_an_interrupt_ends_only_the_run_that_is_meant(client: Client) -> None:
    """D7: another one of its workflow id continues undisturbed."""
    watcher, key = LeaseOwners(client), SessionKey("app", "u", "s")
    asked: list[bool] = []
    async with two_runs(client) as runs:
        for run in runs:
            await watcher.interrupt(key, runs.record(run))
            history = await runs.second.fetch_history()
            kinds = {event.event_type for event in history.events}
            asked.append(EventType.EVENT_TYPE_WORKFLOW_EXECUTION_CANCEL_REQUESTED in kinds)
    assert asked == [False, True]


async def test_an_invocation_that_has_ended_is_not_started_again(client: Client) -> None:
    """I12: who sends it again gets the one that has ended, also if the store knows nothing of it.

    The store may have known: its session was deleted since, or it was never opened.
    """
    invocations = Invocations(client, uuid.uuid4().hex)
    request = InvocationRequest(
        app="a", user=invocations.task_queue, session="s", invocation_id="i", message="go"
    )
    first = (await invocations.start(request)).workflow
    await first.terminate()
    again = await (await invocations.start(request)).workflow.describe()
    assert (again.run_id, again.status) == (
        first.first_execution_run_id,
        WorkflowExecutionStatus.TERMINATED,
    )
