"""The workflows that own session leases, looked up and messaged through Temporal."""

from dataclasses import dataclass

from temporalio.client import Client, WorkflowExecutionStatus
from temporalio.service import RPCError, RPCStatusCode

from durable_adk.errors import TemporalUnavailableError
from durable_adk.sessions.lease_owner import TemporalLeaseOwner
from durable_adk.sessions.records import InvocationRecord
from durable_adk.sessions.session import SessionKey
from durable_adk.wire.messages import InvocationAnswer


@dataclass(frozen=True)
class LeaseOwners:
    """Checks whether lease owners are alive, cancels them, and sends them messages (D7)."""

    client: Client

    async def is_alive(self, lease_owner: str) -> bool:
        """Whether the workflow named by `InvocationRecord.lease_owner` is open.

        Owners that are not workflows count as alive: their leases expire.
        """
        parsed = TemporalLeaseOwner.parse(lease_owner)
        if parsed is None or parsed.namespace != self.client.namespace:
            return True
        handle = self.client.get_workflow_handle(parsed.workflow_id)
        try:
            description = await handle.describe()
        except RPCError as error:
            if error.status is RPCStatusCode.NOT_FOUND:
                return False
            raise TemporalUnavailableError(
                f"Cannot look up the lease owner: {error.message}"
            ) from error
        if description.raw_info.first_run_id != parsed.first_run_id:
            return False  # another workflow has the id now
        return description.status is WorkflowExecutionStatus.RUNNING

    async def interrupt(self, key: SessionKey, record: InvocationRecord) -> None:
        """Cancel the workflow of an invocation; a repetition adds nothing to its history.

        Does nothing for owners that are not workflows of this namespace.
        """
        del key
        parsed = TemporalLeaseOwner.parse(record.lease_owner)
        if parsed is None or parsed.namespace != self.client.namespace:
            return
        handle = self.client.get_workflow_handle(
            parsed.workflow_id, first_execution_run_id=parsed.first_run_id
        )
        try:
            await handle.cancel()
        except RPCError as error:
            if error.status is not RPCStatusCode.NOT_FOUND:
                raise TemporalUnavailableError(
                    f"Cannot cancel the active invocation: {error.message}"
                ) from error

    async def steer(
        self, key: SessionKey, record: InvocationRecord, answer: InvocationAnswer
    ) -> None:
        """Deliver a message to the workflow of an invocation, unless it is closed."""
        del key
        parsed = TemporalLeaseOwner.parse(record.lease_owner)
        if parsed is None or parsed.namespace != self.client.namespace:
            return
        handle = self.client.get_workflow_handle(parsed.workflow_id)
        payload = answer.model_dump(mode="json", by_alias=True, exclude_none=True)
        try:
            await handle.signal("answer", payload)
        except RPCError as error:
            if error.status is not RPCStatusCode.NOT_FOUND:
                raise TemporalUnavailableError(
                    f"Cannot deliver the message: {error.message}"
                ) from error
