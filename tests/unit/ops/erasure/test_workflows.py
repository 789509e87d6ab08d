"""Which workflows are a user's."""

from temporalio import workflow

from durable_adk.ops.erasure.workflows import _ALL, owner_of_argument
from durable_adk.sessions.records import Status
from durable_adk.wire.event_page import ReadSessionEventsStep
from durable_adk.wire.messages import InvocationRequest
from durable_adk.wire.model_request import ReadModelRequestsStep
from durable_adk.wire.webhook import DeliverStep
from durable_adk.worker import WORKFLOWS


def test_every_workflow_type_of_a_worker_is_searched() -> None:
    """A new one has arguments too, which name a user."""
    for kind in WORKFLOWS:
        assert f"'{workflow._Definition.must_from_class(kind).name}'" in _ALL


def test_each_argument_says_whose_workflow_it_is() -> None:
    """Of a message, of model requests, of a page of events, and of a webhook."""
    whose = {"app": "app", "user": "u", "session": "s"}
    webhook = DeliverStep(
        **whose, invocation_id="i", status=Status.COMPLETED, endpoint="e", timestamp=1.0
    )
    message = InvocationRequest.parse({**whose, "message": "hi"})
    requests = ReadModelRequestsStep(**whose, event_ids=["e"])
    for argument in (webhook, message, requests, ReadSessionEventsStep(**whose)):
        assert owner_of_argument(argument.to_value()) == ("app", "u")
    assert owner_of_argument({"some": "thing"}) is None
