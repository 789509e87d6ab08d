"""A user's workflows in Temporal."""

import asyncio
from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from temporalio.api.common.v1 import Payload, WorkflowExecution as RunId
from temporalio.api.workflowservice.v1 import DeleteWorkflowExecutionRequest
from temporalio.client import Client, WorkflowExecution, WorkflowExecutionStatus
from temporalio.converter import DataConverter, WorkflowSerializationContext
from temporalio.service import RPCError, RPCStatusCode

from durable_adk.client.invocations import UnreadableError, decoded, start_of
from durable_adk.errors import TemporalUnavailableError
from durable_adk.sessions.lease_owner import TemporalLeaseOwner
from durable_adk.wire.checkpoint import Cursor
from durable_adk.wire.event_page import SESSION_EVENTS, ReadSessionEventsStep
from durable_adk.wire.messages import InvocationRequest
from durable_adk.wire.model_request import MODEL_REQUESTS
from durable_adk.wire.search_attributes import APP, USER
from durable_adk.wire.webhook import DELIVER_WEBHOOK, DeliverStep
from durable_adk.workflows.invocation import TYPE_NAME

_TYPES = (TYPE_NAME, SESSION_EVENTS, MODEL_REQUESTS, DELIVER_WEBHOOK)
_ALL = f"WorkflowType IN {_TYPES}"
_POLL = 0.1
_DELETION_TIMEOUT = 120.0
"""Seconds within which Temporal must delete workflows. Measured for closed workflows: 33 s with its
default settings, about 3 s with those of our development server."""


@dataclass(frozen=True)
class UserRuns:
    """Runs of a user's workflows."""

    found: list[WorkflowExecution]
    unread: int = 0
    """Number of workflows whose user is unknown, because their argument cannot be decrypted, is
    lost from external storage, or is malformed. No worker could run them either."""
    shared: frozenset[str] = frozenset()
    """Workflow ids that other users' workflows also have."""

    @property
    def workflows(self) -> list[str]:
        """Workflow ids."""
        return sorted({run.id for run in self.found})

    @property
    def open(self) -> list[str]:
        """Ids of the open workflows."""
        running = WorkflowExecutionStatus.RUNNING
        return sorted({run.id for run in self.found if run.status is running})


async def user_runs(
    client: Client, *, app: str, user: str, known: Collection[TemporalLeaseOwner]
) -> UserRuns:
    """Return all runs of a user's workflows.

    This reads the argument of each workflow, because an invocation that was never opened has a
    message but is in no store. Workflows whose search attributes name another user are skipped. Few
    runs of other users are in memory at a time.

    Args:
        client: A client of the namespace.
        app: The app.
        user: The user.
        known: The user's workflows according to the session store. An id alone proves nothing:
            after a workflow has ended, another user may reuse its id.

    Raises:
        TemporalUnavailableError: Temporal does not respond.
    """
    firsts = {(lease_owner.workflow_id, lease_owner.first_run_id) for lease_owner in known}
    ids = {workflow_id for workflow_id, _ in firsts}
    found: list[WorkflowExecution] = []
    unread: set[str] = set()
    try:
        async for run in client.list_workflows(_ALL):
            if run.id not in ids and _is_attributed_to_others(run, app, user):
                continue
            try:
                if await _is_of(client, run, app, user, firsts):
                    found.append(run)
            except UnreadableError:
                unread.add(run.id)
        here, ids = {run.run_id for run in found}, ids | {run.id for run in found}
        others = client.list_workflows(_ALL)
        shared = {run.id async for run in others if run.id in ids and run.run_id not in here}
    except RPCError as error:
        raise TemporalUnavailableError(f"Temporal did not respond: {error.message}") from error
    return UserRuns(found, len(unread), frozenset(shared))


def _is_attributed_to_others(run: WorkflowExecution, app: str, user: str) -> bool:
    """Return whether a run's search attributes name another user or app; missing ones do not."""
    marked = run.typed_search_attributes
    return marked.get(USER, user).strip() != user or marked.get(APP, app).strip() != app


async def _is_of(
    client: Client,
    run: WorkflowExecution,
    app: str,
    user: str,
    firsts: Collection[tuple[str, str]],
) -> bool:
    """Return whether a run is the user's, according to the store or to its argument.

    The first run's argument is a request, a later run's a cursor. Both name the user.
    """
    try:
        started = await start_of(client, run.id, run.run_id)
    except RPCError as error:
        if error.status is RPCStatusCode.NOT_FOUND:
            return False
        raise
    context = WorkflowSerializationContext(client.namespace, run.id)
    converter = client.data_converter.with_context(context)
    if (run.id, started.first_execution_run_id) in firsts:
        return True
    return await owner_of_arguments(converter, started.input.payloads) == (app, user)


async def owner_of_arguments(
    converter: DataConverter, payloads: Sequence[Payload]
) -> tuple[str, str] | None:
    """Return app and user of a run according to its arguments; None if they are not this package's.

    Raises:
        UnreadableError: The arguments cannot be read.
    """
    values = await decoded(converter, payloads)
    return owner_of_argument(values[0]) if values else None


def owner_of_argument(argument: Any) -> tuple[str, str] | None:
    """Return app and user in a run's argument; None if it is not this package's."""
    with suppress(ValueError):
        request = InvocationRequest.read(argument)
        return request.app.strip(), request.user.strip()
    with suppress(ValueError):
        cursor = Cursor.read(argument)
        return cursor.app, cursor.user
    with suppress(ValueError):
        webhook = DeliverStep.read(argument)
        return webhook.app, webhook.user
    with suppress(ValueError):
        page = ReadSessionEventsStep.read(argument)
        return page.app.strip(), page.user.strip()
    return None


async def delete_runs(client: Client, runs: UserRuns) -> None:
    """Request the deletion of the runs, which also ends open ones; idempotent.

    Temporal persists the request. It deletes open runs at once, and closed ones within a minute.

    Raises:
        TemporalUnavailableError: Temporal does not respond.
    """
    try:
        for run in runs.found:
            execution = RunId(workflow_id=run.id, run_id=run.run_id)
            request = DeleteWorkflowExecutionRequest(
                namespace=client.namespace, workflow_execution=execution
            )
            with _ignore_not_found():
                await client.workflow_service.delete_workflow_execution(request, retry=True)
    except RPCError as error:
        raise TemporalUnavailableError(f"Temporal did not respond: {error.message}") from error


async def wait_until_deleted(client: Client, runs: UserRuns) -> None:
    """Wait until Temporal has deleted the runs.

    Raises:
        TemporalUnavailableError: It has not deleted them after two minutes, or does not respond.
    """
    try:
        async with asyncio.timeout(_DELETION_TIMEOUT):
            await _wait_for_deletion(client, runs)
    except TimeoutError:
        raise TemporalUnavailableError(
            "Everything else is erased, but Temporal has not deleted the workflows yet. It has "
            "the request and will do so; check again later."
        ) from None
    except RPCError as error:
        raise TemporalUnavailableError(f"Temporal did not respond: {error.message}") from error


async def _wait_for_deletion(client: Client, runs: UserRuns) -> None:
    for run in runs.found:
        while await _exists(client, run):  # noqa: ASYNC110  # Temporal does not notify of deletions
            await asyncio.sleep(_POLL)


async def _exists(client: Client, run: WorkflowExecution) -> bool:
    with _ignore_not_found():
        await client.get_workflow_handle(run.id, run_id=run.run_id).describe()
        return True
    return False


class _ignore_not_found:  # noqa: N801  # as contextlib's
    """Suppresses the error for a workflow that does not exist."""

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> bool:
        return isinstance(error, RPCError) and error.status is RPCStatusCode.NOT_FOUND
