"""The request of a model call, which a worker rebuilds on demand."""

import asyncio
import uuid
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

from fastapi import APIRouter
from starlette.responses import Response
from temporalio.api.common.v1 import WorkflowExecution
from temporalio.api.workflowservice.v1 import DeleteWorkflowExecutionRequest
from temporalio.client import Client, WorkflowFailureError, WorkflowHandle
from temporalio.exceptions import ApplicationError
from temporalio.service import RPCError

from durable_adk.client.invocations import Invocations, started_with
from durable_adk.errors import (
    DurableAdkError,
    NotFoundError,
    NoWorkerError,
    RateLimitError,
    StoreUnavailableError,
    TemporalUnavailableError,
    from_detail,
)
from durable_adk.log import get_logger
from durable_adk.server.caller import CurrentCaller
from durable_adk.server.routes.body import as_json
from durable_adk.server.routes.invocation_lookup import ThisInvocation
from durable_adk.server.services import CurrentServices, ServerServices
from durable_adk.sessions.lease_owner import TemporalLeaseOwner
from durable_adk.sessions.session import SessionKey
from durable_adk.storage.payload_driver import blobs_of, owner_folder, owner_of
from durable_adk.wire.model_request import (
    MODEL_REQUESTS,
    ModelRequest,
    ModelRequests,
    ReadModelRequestsStep,
)
from durable_adk.wire.run_config import RunConfig

router = APIRouter(prefix="/invocations", tags=["invocations"])
_LONGEST = 30.0
"""Seconds for a worker to rebuild requests."""
_CODE = 2 / 3
"""The worker's share of that time; the rest is for Temporal and the response."""
_DELETING = timedelta(seconds=1)
_OPTIONS_BYTES = 1_000_000
"""Maximum size of run options in a workflow's argument, as JSON."""

logger = get_logger(__name__)


@router.get("/{invocation_id}/requests/{event_id}", response_model=ModelRequest)
async def get_model_request(
    services: CurrentServices, caller: CurrentCaller, this: ThisInvocation, event_id: str
) -> Response:
    """Return the model request that produced an event; for operators only.

    It is not stored. A worker rebuilds it from the preceding events with the current code of the
    agents; `differences` lists why the original may have differed. 404: the event is not a model
    response of the invocation. 409 (`RequestNotRebuiltError`): the code cannot build it.
    """
    caller.require_operator(
        "see what a model was asked: it has the agents' prompts and the state that users share"
    )
    stored = await services.session_service.find_event(this.key, event_id)
    if stored is None or stored.event.invocation_id != this.record.invocation_id:
        raise NotFoundError(f"The invocation has no event {event_id!r}.")
    runs = {this.record.invocation_id: this.record.lease_owner}
    (found,) = await rebuilt_requests(services, this.key, [event_id], runs=runs)
    return as_json(found)


async def rebuilt_requests(
    services: ServerServices,
    key: SessionKey,
    event_ids: Sequence[str],
    *,
    runs: Mapping[str, str],
    max_bytes: int | None = None,
    seconds: float = _LONGEST,
) -> Sequence[ModelRequest]:
    """Rebuild model requests on a worker.

    Args:
        services: The server's services.
        key: The session.
        event_ids: Events of model calls, at most `MAX_CALLS`.
        runs: The lease owners of their invocations, by invocation id.
        max_bytes: Maximum size of the requests as JSON; requests that do not fit, or cannot be
            rebuilt, are omitted. None: all are required.
        seconds: Maximum time for a worker.

    Raises:
        RateLimitError: Other requests are being rebuilt, here or by the worker.
        NotFoundError: An event is not a model's response.
        RequestNotRebuiltError: The agents' current code cannot build a request.
        PayloadTooLargeError: The requests are too large, and all are required.
        NoWorkerError: No worker has rebuilt them in time.
        TemporalUnavailableError: Temporal does not respond.
    """
    if services.rebuilds.locked():
        raise RateLimitError(
            "Other requests of model calls are being rebuilt; try again in some seconds."
        )
    app, user, session = key
    step = ReadModelRequestsStep(app=app, user=user, session=session, event_ids=list(event_ids))
    step.attempt_timeout = seconds * _CODE
    if max_bytes is not None:
        step.skips, step.max_bytes = True, max_bytes
    client, queue = services.client, services.task_queue(app)
    try:
        async with services.rebuilds:
            await Invocations(client, queue).check_worker("")
            step.run_configs = await _run_configs(client, runs)
            return (await _rebuilt(client, queue, step, seconds)).requests
    except WorkflowFailureError as error:
        raise _reason(error) from error
    except RPCError as error:
        raise TemporalUnavailableError(f"Temporal did not answer: {error.message}") from error


async def _rebuilt(
    client: Client, task_queue: str, step: ReadModelRequestsStep, seconds: float
) -> ModelRequests:
    handle: WorkflowHandle[Any, Any] = await client.start_workflow(
        MODEL_REQUESTS,
        step.model_dump(mode="json", by_alias=True, exclude_defaults=True),
        id=f"model-requests-{uuid.uuid4()}",
        task_queue=task_queue,
        execution_timeout=timedelta(seconds=seconds),
    )
    try:
        return ModelRequests.read(await handle.result())
    finally:
        await _delete(client, handle)


async def _delete(client: Client, handle: WorkflowHandle[Any, Any]) -> None:
    """Delete a finished workflow: its history contains texts that Temporal should not keep."""
    execution = WorkflowExecution(workflow_id=handle.id, run_id=handle.first_execution_run_id or "")
    request = DeleteWorkflowExecutionRequest(
        namespace=client.namespace, workflow_execution=execution
    )
    try:
        await client.workflow_service.delete_workflow_execution(request, timeout=_DELETING)
        if blobs := blobs_of(client.data_converter):
            await blobs.remove(owner_folder(owner_of(client.namespace, handle.id)))
    except (RPCError, StoreUnavailableError) as error:
        logger.warning("model_requests.not_deleted", workflow_id=handle.id, reason=str(error))


def _reason(error: WorkflowFailureError) -> DurableAdkError:
    cause = error.cause
    detail = next(iter(cause.details), None) if isinstance(cause, ApplicationError) else None
    if isinstance(detail, dict):
        return from_detail(detail)  # pyright: ignore[reportUnknownArgumentType]: as_detail made it
    return NoWorkerError(
        "No worker has rebuilt the request in time. Try again, or look whether the workers are of "
        "this release."
    )


async def _run_configs(client: Client, runs: Mapping[str, str]) -> dict[str, RunConfig]:
    """Return the options of runs by invocation id, if Temporal has them and they fit."""
    found = await asyncio.gather(*(_run_config(client, owner) for owner in runs.values()))
    fitting, room = dict[str, RunConfig](), _OPTIONS_BYTES
    for name, one in zip(runs, found, strict=True):
        size = 0 if one is None else len(one.to_json().encode())
        if one is not None and size <= room:
            fitting[name] = one
            room -= size
    return fitting


async def _run_config(client: Client, lease_owner: str) -> RunConfig | None:
    owner = TemporalLeaseOwner.parse(lease_owner)
    if owner is None or owner.namespace != client.namespace:
        return None
    request = await started_with(client, owner.workflow_id, owner.first_run_id)
    if request is None:
        return None
    # Its headers may be credentials, and are never shown.
    return request.run_config.model_copy(update={"http_options": None})
