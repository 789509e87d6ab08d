"""Workflow ids, and whether anybody would take a workflow."""

from types import SimpleNamespace
from typing import Any, cast

import pytest
from hypothesis import given, strategies as st
from temporalio.api.workflowservice.v1 import DescribeTaskQueueResponse
from temporalio.client import WorkflowExecutionStatus, WorkflowFailureError
from temporalio.common import WorkflowIDReusePolicy
from temporalio.exceptions import ApplicationError, WorkflowAlreadyStartedError

from durable_adk.client import invocations, workflow_id
from durable_adk.errors import ModelError, NoWorkerError, SessionBusyError, as_detail
from durable_adk.sessions import SessionKey
from durable_adk.sessions.lease_owner import TemporalLeaseOwner
from durable_adk.settings import DEFAULT_TASK_QUEUE
from durable_adk.wire.messages import InvocationRequest

PARTS = st.tuples(*[st.text("ab:/\"',[] ", min_size=1, max_size=4)] * 4)


@given(PARTS, PARTS)
def test_two_invocations_never_share_a_workflow(
    first: tuple[str, str, str, str], second: tuple[str, str, str, str]
) -> None:
    """S2, DUR-1: ("a:b", "c") is not ("a", "b:c"); the same parts always give the same id."""
    ids = [workflow_id(SessionKey(*parts[:3]), parts[3]) for parts in (first, second)]
    assert (ids[0] == ids[1]) == (first == second)


def test_no_personal_data_is_in_the_id() -> None:
    """S2: only the app's name can be read from it."""
    name = workflow_id(SessionKey("geo", "alice@example.com", "secret-trip"), "e-1")
    assert name.startswith("invocation-geo-")
    assert "alice" not in name
    assert "secret" not in name


@given(st.text("abc:", max_size=12))
def test_a_owner_is_read_back_as_written(workflow: str) -> None:
    """A lease leads to exactly the run that holds it."""
    lease_owner = TemporalLeaseOwner("default", "run-1", workflow)
    assert TemporalLeaseOwner.parse(str(lease_owner)) == lease_owner
    assert TemporalLeaseOwner.parse("local:123:e-1") is None


@pytest.mark.parametrize(("queue", "is_told"), [(DEFAULT_TASK_QUEUE, True), ("other", False)])
async def test_where_dev_and_web_poll_is_told(
    monkeypatch: pytest.MonkeyPatch, queue: str, is_told: bool
) -> None:
    """A server beside them that sends to the default queue would wait for a worker forever."""

    async def nobody(*_: Any) -> DescribeTaskQueueResponse:
        return DescribeTaskQueueResponse()

    monkeypatch.setattr(invocations, "described", nobody)
    with pytest.raises(NoWorkerError) as refused:
        await invocations.Invocations(cast("Any", None), queue).check_worker("i")
    assert ("`durable-adk dev` and `web` poll durable-adk-APP" in refused.value.message) is is_told


class Ended:
    """A client, and the handle of a workflow that has ended, and notes how it is started again."""

    id = "w"

    def __init__(self, status: WorkflowExecutionStatus, error: Exception) -> None:
        self.service_client, self.namespace = self, "n"
        self.started: list[WorkflowIDReusePolicy] = []
        self._status, self._error = status, error

    def get_workflow_handle(self, name: str, *, run_id: str | None = None) -> "Ended":
        """Return the handle."""
        assert name
        assert run_id in (None, "r")
        return self

    async def start_workflow(self, *_: Any, **options: Any) -> None:
        """Refuse, as the id was used."""
        self.started.append(options["id_reuse_policy"])
        raise WorkflowAlreadyStartedError("w", "Invocation")

    async def describe(self) -> Any:
        """Return how it ended."""
        return SimpleNamespace(status=self._status, id="w", run_id="r")

    async def result(self) -> Any:
        """Fail as it has."""
        raise WorkflowFailureError(cause=ApplicationError(str(self._error), as_detail(self._error)))


STATUS = WorkflowExecutionStatus


@pytest.mark.parametrize(
    ("status", "error", "starts"),
    [
        (STATUS.FAILED, SessionBusyError(), 2),
        (STATUS.FAILED, ModelError("no"), 1),
        (STATUS.COMPLETED, SessionBusyError(), 1),
        (STATUS.TERMINATED, SessionBusyError(), 1),
    ],
)
async def test_only_a_refused_start_is_repeated(
    monkeypatch: pytest.MonkeyPatch, status: WorkflowExecutionStatus, error: Exception, starts: int
) -> None:
    """I12: whatever else an invocation ended with is what a repeat of its start gets."""

    async def none(*_: Any) -> None:
        pass

    for name in ("search_attributes", "starts_here"):
        monkeypatch.setattr(invocations, name, none)
    monkeypatch.setattr(invocations, "traced", lambda client: client)
    client = Ended(status, error)
    request = InvocationRequest(app="a", user="u", session="s", message="m", invocation_id="i")
    await invocations.Invocations(cast("Any", client), "q").start(request)
    repeats = [WorkflowIDReusePolicy.ALLOW_DUPLICATE_FAILED_ONLY] * (starts - 1)
    assert client.started == [WorkflowIDReusePolicy.REJECT_DUPLICATE, *repeats]
