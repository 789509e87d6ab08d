"""What a workflow run was started with."""

from types import SimpleNamespace
from typing import Any

import pytest
from temporalio.api.history.v1 import History, HistoryEvent
from temporalio.api.workflowservice.v1 import GetWorkflowExecutionHistoryResponse

from durable_adk.client.invocations import started_with
from durable_adk.errors import EncryptionKeyError, PayloadLostError, StoreUnavailableError
from durable_adk.wire.messages import InvocationRequest

REQUEST = InvocationRequest(app="a", user="u", message="hi")


def client_with(found: Any) -> Any:
    """A client whose converter gives the arguments, or raises."""

    async def history(_: Any, **__: Any) -> GetWorkflowExecutionHistoryResponse:
        return GetWorkflowExecutionHistoryResponse(history=History(events=[HistoryEvent()]))

    async def decode(_: Any) -> Any:
        if isinstance(found, Exception):
            raise found
        return found

    converter = SimpleNamespace(decode=decode)
    converter.with_context = lambda _: converter
    service = SimpleNamespace(get_workflow_execution_history=history)
    return SimpleNamespace(namespace="n", workflow_service=service, data_converter=converter)


async def test_a_request_is_read_back() -> None:
    """As it was sent."""
    assert await started_with(client_with([REQUEST.to_value()]), "w") == REQUEST


@pytest.mark.parametrize(
    "found",
    [
        StoreUnavailableError("away"),
        *(TypeError(), KeyError(), RuntimeError("no codec"), UnicodeError()),
        *(EncryptionKeyError(), PayloadLostError(), [], [1, 2], [{"some": "thing"}]),
    ],
)
async def test_what_cannot_be_read_is_none(found: Any) -> None:
    """External storage is away, a key is missing, the payload is lost, malformed, or of others."""
    assert await started_with(client_with(found), "w") is None
