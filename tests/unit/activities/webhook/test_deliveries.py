"""Starts of deliveries, as Temporal takes them or not."""

from dataclasses import dataclass
from typing import Any, cast

import pytest
from temporalio.exceptions import WorkflowAlreadyStartedError
from temporalio.service import RPCError, RPCStatusCode

from durable_adk.activities.webhook.deliveries import Deliveries
from durable_adk.errors import TemporalUnavailableError
from durable_adk.sessions.records import Status
from durable_adk.wire.webhook import DeliverStep

STEP = DeliverStep(
    app="app",
    user="u",
    session="s",
    invocation_id="i",
    status=Status.PAUSED,
    revision=3,
    endpoint="e",
    timestamp=1.0,
)


@dataclass
class Refusing:
    """A client whose server refuses a start."""

    error: Exception

    async def start_workflow(self, *_: Any, **__: Any) -> None:
        raise self.error


async def start(error: Exception) -> None:
    """Start a delivery where that raises an error."""
    await Deliveries(cast("Any", Refusing(error)), "queue").start(STEP)


async def test_a_start_that_will_never_be_taken_hangs_no_invocation() -> None:
    """It is logged; one that was made before is done; for anything else the step is retried."""
    await start(WorkflowAlreadyStartedError("id", "type"))
    for final in (RPCStatusCode.PERMISSION_DENIED, RPCStatusCode.INVALID_ARGUMENT):
        await start(RPCError("no", final, b""))
    for away in (RPCStatusCode.UNAVAILABLE, RPCStatusCode.RESOURCE_EXHAUSTED):
        with pytest.raises(TemporalUnavailableError):
            await start(RPCError("later", away, b""))


def test_a_webhooks_id_says_what_it_is_about() -> None:
    """The same at each attempt, also later and on another worker; another one for what is new."""
    again = STEP.model_copy(update={"timestamp": 2.0})
    assert again.message_id == STEP.message_id
    assert again.workflow_id == STEP.workflow_id
    renamed = ({"user": "v"}, {"session": "t"}, {"created_epoch": 1})
    for other in ({"revision": 4}, {"status": Status.FAILED}, *renamed):
        assert STEP.model_copy(update=other).message_id != STEP.message_id
    elsewhere = STEP.model_copy(update={"endpoint": "f"})
    assert elsewhere.message_id == STEP.message_id
    assert elsewhere.workflow_id != STEP.workflow_id
    ended, abandoned = (
        STEP.model_copy(update={"status": status, "revision": None})
        for status in (Status.COMPLETED, Status.ABANDONED)
    )
    assert ended.message_id == abandoned.message_id  # an invocation ends once
