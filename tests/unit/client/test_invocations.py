"""Workflow ids, and whether anybody would take a workflow."""

from typing import Any, cast

import pytest
from hypothesis import given, strategies as st
from temporalio.api.workflowservice.v1 import DescribeTaskQueueResponse

from durable_adk.client import invocations, workflow_id
from durable_adk.errors import NoWorkerError
from durable_adk.sessions import SessionKey
from durable_adk.sessions.lease_owner import TemporalLeaseOwner
from durable_adk.settings import DEFAULT_TASK_QUEUE

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
