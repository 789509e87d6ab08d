"""The workflows that own sessions' leases, as Temporal describes them."""

import asyncio
from contextlib import suppress
from dataclasses import dataclass

from temporalio.client import Client, WorkflowExecutionDescription, WorkflowExecutionStatus
from temporalio.service import RPCError, RPCStatusCode

from durable_adk.client.invocations import only_waits
from durable_adk.errors import TemporalUnavailableError
from durable_adk.ops.doctor.sources import if_exists
from durable_adk.sessions.lease_owner import TemporalLeaseOwner
from durable_adk.sessions.records import InvocationRecord

CANCELLATION_TIMEOUT = 10.0
"""Seconds within which a cancelled workflow must end."""


@dataclass(frozen=True)
class OwningWorkflow:
    """A workflow that owns a lease, and its description."""

    owner: TemporalLeaseOwner
    description: WorkflowExecutionDescription | None
    """None if Temporal does not have the workflow."""

    @property
    def running(self) -> bool:
        """Whether the workflow is open."""
        found = self.description
        return found is not None and found.status is WorkflowExecutionStatus.RUNNING

    @property
    def idle(self) -> bool:
        """Whether the workflow is open and only a message can make it proceed."""
        return self.running and self.description is not None and only_waits(self.description)


async def owning_workflow(client: Client, record: InvocationRecord) -> OwningWorkflow | None:
    """Return the workflow that runs an invocation; None if another Temporal namespace runs it.

    Raises:
        TemporalUnavailableError: Temporal does not respond.
    """
    owner = TemporalLeaseOwner.parse(record.lease_owner)
    if owner is None or owner.namespace != client.namespace:
        return None
    found = await if_exists(client.get_workflow_handle(owner.workflow_id).describe())
    # The server looks the workflow up by its id, which a later workflow may have reused.
    if found is not None and found.raw_info.first_run_id != owner.first_run_id:
        found = None
    return OwningWorkflow(owner, found)


async def end_workflow(client: Client, workflow_id: str, first_run_id: str) -> None:
    """Cancel a workflow; terminate it if no worker completes the cancellation.

    Raises:
        TemporalUnavailableError: Temporal does not respond.
    """
    handle = client.get_workflow_handle(workflow_id, first_execution_run_id=first_run_id)
    try:
        await handle.cancel()
        with suppress(TimeoutError):
            async with asyncio.timeout(CANCELLATION_TIMEOUT):
                while (await handle.describe()).status is WorkflowExecutionStatus.RUNNING:  # noqa: ASYNC110  # another process ends it
                    await asyncio.sleep(0.1)
                return
        await handle.terminate(reason="There is nothing left for it to do; ended by the doctor.")
    except RPCError as error:
        if error.status is not RPCStatusCode.NOT_FOUND:  # it has ended
            raise TemporalUnavailableError(f"Temporal did not respond: {error.message}") from error
