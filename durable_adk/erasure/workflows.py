"""A person's workflows in Temporal."""

import asyncio
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass

from temporalio.api.common.v1 import WorkflowExecution as RunId
from temporalio.api.workflowservice.v1 import (
    DeleteWorkflowExecutionRequest,
    GetWorkflowExecutionHistoryRequest,
)
from temporalio.client import Client, WorkflowExecution, WorkflowExecutionStatus
from temporalio.converter import WorkflowSerializationContext
from temporalio.service import RPCError, RPCStatusCode

from durable_adk.errors import TemporalUnavailableError, TransientError
from durable_adk.messages import InvocationRequest
from durable_adk.workflows.invocation import TYPE_NAME

_POLL = 0.1
_PATIENCE = 120.0
"""Seconds until Temporal has deleted what it was asked to: measured, closed workflows take 33."""


@dataclass(frozen=True)
class Runs:
    """Runs of a person's workflows."""

    found: list[WorkflowExecution]
    unread: int = 0
    """Workflows of which nobody here can say whose they are: their start cannot be decrypted."""

    @property
    def workflows(self) -> list[str]:
        """Ids."""
        return sorted({run.id for run in self.found})

    @property
    def open(self) -> list[str]:
        """Ids of those that go on."""
        running = WorkflowExecutionStatus.RUNNING
        return sorted({run.id for run in self.found if run.status is running})


async def runs_of(client: Client, *, app: str, user: str, known: Iterable[str]) -> Runs:
    """All runs of the workflows of a user.

    Each workflow's start is read: one that was never opened is in no store, and has a message.

    Args:
        client: Of the namespace.
        app: The app.
        user: The user.
        known: Ids of workflows that the session store knows to be the user's.

    Raises:
        TemporalUnavailableError: Temporal does not answer.
    """
    try:
        runs = [one async for one in client.list_workflows(f"WorkflowType = '{TYPE_NAME}'")]
        whose = dict.fromkeys(known, True)
        unread: set[str] = set()
        for run in sorted(runs, key=lambda one: one.start_time):
            if not whose.get(run.id):
                try:
                    whose[run.id] = await _is_of(client, run, app, user) or run.id in whose
                except TransientError:  # a key that is not here
                    unread.add(run.id)
    except RPCError as error:
        raise TemporalUnavailableError(f"Temporal did not answer: {error.message}") from error
    return Runs([run for run in runs if whose.get(run.id)], len(unread))


async def _is_of(client: Client, run: WorkflowExecution, app: str, user: str) -> bool:
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
    values = await converter.decode_wrapper(started.input)
    with suppress(ValueError):  # the cursor of a later run, or no invocation at all
        asked = InvocationRequest.model_validate(values[0])
        return (asked.app.strip(), asked.user.strip()) == (app, user)
    return False


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
