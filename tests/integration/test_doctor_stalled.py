"""The doctor names what stands still, and why."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from temporalio.api.enums.v1 import WorkflowTaskFailedCause
from temporalio.api.failure.v1 import Failure
from temporalio.api.taskqueue.v1 import TaskQueue
from temporalio.api.workflowservice.v1 import (
    PollWorkflowTaskQueueRequest,
    RespondWorkflowTaskFailedRequest,
)
from temporalio.client import Client, WorkflowFailureError

from durable_adk.repair.findings import Kind
from durable_adk.repair.stalled import TRIES
from tests.support.clinic import Clinic
from tests.support.own_server import own_client

REASON = "[TMPRL1100] Nondeterminism error: the body has changed"


@pytest.fixture(scope="module")
async def client(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Client]:
    """Of a server with nothing else on it."""
    async with own_client(tmp_path_factory.mktemp("own")) as connected:
        yield connected


@pytest.fixture
async def clinic(tmp_path: Path, client: Client) -> AsyncIterator[Clinic]:
    """A patient, without a worker."""
    opened = Clinic(tmp_path, client, client.service_client.config.target_host)
    yield opened
    await opened.store.close()


async def fail(clinic: Clinic, times: int) -> None:
    """Do as workers do whose code does not fit to a history."""
    service, queue = clinic.client.workflow_service, TaskQueue(name=clinic.user)
    poll = PollWorkflowTaskQueueRequest(namespace=clinic.client.namespace, task_queue=queue)
    for _ in range(times):
        task = await service.poll_workflow_task_queue(poll)
        await service.respond_workflow_task_failed(
            RespondWorkflowTaskFailedRequest(
                namespace=clinic.client.namespace,
                task_token=task.task_token,
                cause=WorkflowTaskFailedCause.WORKFLOW_TASK_FAILED_CAUSE_NON_DETERMINISTIC_ERROR,
                failure=Failure(message=REASON),
            )
        )


async def test_an_invocation_that_no_worker_gets_on_with_is_named(clinic: Clinic) -> None:
    """I11: with the error; it is no finding before, and none when the code is back."""
    async with clinic.working():
        await clinic.run("approval", "one")
    handle = clinic.workflow("approval", "one")
    await handle.cancel()
    await fail(clinic, TRIES - 2)
    assert await clinic.findings() == []
    await fail(clinic, 1)
    (finding,) = await clinic.findings()
    assert (finding.kind, finding.fix) == (Kind.STALLED, None)
    assert (finding.key, finding.invocation_id) == (clinic.key("approval"), "one")
    assert REASON in finding.problem
    assert f"at attempt {TRIES}," in finding.problem
    code, said = clinic.doctor()
    assert code == 1
    assert Kind.STALLED in said
    async with clinic.working():
        with pytest.raises(WorkflowFailureError):
            await handle.result()
    assert await clinic.findings() == []


async def test_so_is_a_message_that_no_worker_can_begin_with(clinic: Clinic) -> None:
    """I11: the store knows nothing of it yet."""
    await clinic.store.create_session(app_name="charge", user_id=clinic.user, session_id="s")
    request = {"app": "charge", "user": clinic.user, "session": "s", "message": "go"}
    handle = await clinic.client.start_workflow(
        "Invocation", request, id=clinic.workflow("charge", "one").id, task_queue=clinic.user
    )
    await fail(clinic, TRIES - 1)
    (finding,) = await clinic.findings()
    assert (finding.kind, finding.key) == (Kind.STALLED, clinic.key("charge"))
    assert REASON in finding.problem
    async with clinic.working():
        await handle.result()
    assert await clinic.findings() == []
