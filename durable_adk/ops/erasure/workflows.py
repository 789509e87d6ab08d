"""A person's workflows in Temporal."""

import asyncio
from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from temporalio.api.common.v1 import Payload, WorkflowExecution as RunId
from temporalio.api.workflowservice.v1 import (
    DeleteWorkflowExecutionRequest,
    GetWorkflowExecutionHistoryRequest,
)
from temporalio.client import Client, WorkflowExecution, WorkflowExecutionStatus
from temporalio.converter import DataConverter, WorkflowSerializationContext
from temporalio.service import RPCError, RPCStatusCode

from durable_adk.errors import PayloadLostError, TemporalUnavailableError, TransientError
from durable_adk.sessions.lease_owner import TemporalLeaseOwner
from durable_adk.wire.checkpoint import Cursor
from durable_adk.wire.messages import InvocationRequest
from durable_adk.wire.search_attributes import APP, USER
from durable_adk.workflows.invocation import ARGUMENT_ERRORS, TYPE_NAME

_ALL = f"WorkflowType = '{TYPE_NAME}'"
_POLL = 0.1
_PATIENCE = 120.0
"""Seconds until Temporal has deleted what it was asked to: measured, closed workflows
take 33 by its own settings, and about 3 by those of our development server."""


class UnreadableError(Exception):
    """What a run was started with needs a key that is not here, is lost, or is broken."""


@dataclass(frozen=True)
class Runs:
    """Runs of a person's workflows."""

    found: list[WorkflowExecution]
    unread: int = 0
    """Workflows of which nobody here can say whose they are: their start cannot be decrypted, was
    kept outside of Temporal and is gone, or is broken, and then no worker could run them either."""
    shared: frozenset[str] = frozenset()
    """Ids that workflows of others have, too."""

    @property
    def workflows(self) -> list[str]:
        """Ids."""
        return sorted({run.id for run in self.found})

    @property
    def open(self) -> list[str]:
        """Ids of those that go on."""
        running = WorkflowExecutionStatus.RUNNING
        return sorted({run.id for run in self.found if run.status is running})


async def runs_of(
    client: Client, *, app: str, user: str, known: Collection[TemporalLeaseOwner]
) -> Runs:
    """All runs of the workflows of a user.

    Each workflow's start is read: one that was never opened is in no store, and has a message. Not
    of those that are marked as another's; only few others are in memory at a time.

    Args:
        client: Of the namespace.
        app: The app.
        user: The user.
        known: Workflows that the session store knows to be the user's. An id alone says nothing:
            when one has ended, somebody else may have used it again.

    Raises:
        TemporalUnavailableError: Temporal does not answer.
    """
    firsts = {(lease_owner.workflow_id, lease_owner.first_run_id) for lease_owner in known}
    ids = {workflow_id for workflow_id, _ in firsts}
    found: list[WorkflowExecution] = []
    unread: set[str] = set()
    try:
        async for run in client.list_workflows(_ALL):
            if run.id not in ids and _is_marked_as_others(run, app, user):
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
        raise TemporalUnavailableError(f"Temporal did not answer: {error.message}") from error
    return Runs(found, len(unread), frozenset(shared))


def _is_marked_as_others(run: WorkflowExecution, app: str, user: str) -> bool:
    """Whether its search attributes name another user or app; the start of one without is read."""
    marked = run.typed_search_attributes
    return marked.get(USER, user).strip() != user or marked.get(APP, app).strip() != app


async def _is_of(
    client: Client,
    run: WorkflowExecution,
    app: str,
    user: str,
    firsts: Collection[tuple[str, str]],
) -> bool:
    """Whether a run is the user's: the store knows its workflow, or it says so itself.

    The argument of a first run is a request, that of a later one a cursor; both name the user.
    """
    request = GetWorkflowExecutionHistoryRequest(
        namespace=client.namespace,
        execution=RunId(workflow_id=run.id, run_id=run.run_id),
        maximum_page_size=1,
    )
    try:
        history = await client.workflow_service.get_workflow_execution_history(request)
    except RPCError as error:
        if error.status is RPCStatusCode.NOT_FOUND:
            return False
        raise
    started = history.history.events[0].workflow_execution_started_event_attributes
    context = WorkflowSerializationContext(client.namespace, run.id)
    converter = client.data_converter.with_context(context)
    if (run.id, started.first_execution_run_id) in firsts:
        return True
    return await owner_in(converter, started.input.payloads) == (app, user)


async def owner_in(converter: DataConverter, payloads: Sequence[Payload]) -> tuple[str, str] | None:
    """App and user of a run, by its arguments; None: it runs no invocation.

    Raises:
        UnreadableError: Nobody can say here.
    """
    try:
        values = await converter.decode(payloads)
    except (TransientError, PayloadLostError, *ARGUMENT_ERRORS) as error:
        raise UnreadableError from error
    return whose(values[0]) if values else None


def whose(argument: Any) -> tuple[str, str] | None:
    """App and user of a run; None: its argument says nothing of them: it runs no invocation."""
    with suppress(ValueError):
        asked = InvocationRequest.read(argument)
        return asked.app.strip(), asked.user.strip()
    with suppress(ValueError):
        cursor = Cursor.read(argument)
        return cursor.app, cursor.user
    return None


async def remove(client: Client, runs: Runs) -> None:
    """Ask Temporal to delete the runs, which ends those that go on; a repeat changes nothing.

    It remembers that it was asked. What goes on is gone at once, what was closed within a minute.

    Raises:
        TemporalUnavailableError: Temporal does not answer.
    """
    try:
        for run in runs.found:
            execution = RunId(workflow_id=run.id, run_id=run.run_id)
            request = DeleteWorkflowExecutionRequest(
                namespace=client.namespace, workflow_execution=execution
            )
            with _gone():
                await client.workflow_service.delete_workflow_execution(request)
    except RPCError as error:
        raise TemporalUnavailableError(f"Temporal did not answer: {error.message}") from error


async def removed(client: Client, runs: Runs) -> None:
    """Wait until Temporal does not know the runs any more.

    Raises:
        TemporalUnavailableError: It still knows them after two minutes, or does not answer.
    """
    try:
        async with asyncio.timeout(_PATIENCE):
            await _until_forgotten(client, runs)
    except TimeoutError:
        raise TemporalUnavailableError(
            "All else is erased, and Temporal has been asked to delete the workflows, but it has "
            "not done so yet; look again in a while."
        ) from None
    except RPCError as error:
        raise TemporalUnavailableError(f"Temporal did not answer: {error.message}") from error


async def _until_forgotten(client: Client, runs: Runs) -> None:
    for run in runs.found:
        while await _is_known(client, run):  # noqa: ASYNC110  # nobody tells
            await asyncio.sleep(_POLL)


async def _is_known(client: Client, run: WorkflowExecution) -> bool:
    with _gone():
        await client.get_workflow_handle(run.id, run_id=run.run_id).describe()
        return True
    return False


class _gone:  # noqa: N801  # as contextlib's
    """Passes over that a workflow is not there."""

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> bool:
        return isinstance(error, RPCError) and error.status is RPCStatusCode.NOT_FOUND
