"""The workflows that own session leases, looked up and messaged through Temporal."""

from dataclasses import dataclass
from typing import Any

from temporalio.client import Client, WorkflowExecutionStatus, WorkflowHandle

from durable_adk.client.connect import if_exists, reached
from durable_adk.sessions.lease_owner import TemporalLeaseOwner
from durable_adk.sessions.records import InvocationRecord
from durable_adk.sessions.session import SessionKey
from durable_adk.wire.messages import InvocationAnswer


@dataclass(frozen=True)
class LeaseOwners:
    """Checks whether lease owners are alive, cancels them, and sends them messages (D7).

    Owners that are not workflows of the client's namespace count as alive, because their leases
    expire; nothing is sent to them.

    All methods raise `TemporalUnavailableError` if Temporal does not respond.
    """

    client: Client

    async def is_alive(self, lease_owner: str) -> bool:
        """Return whether the workflow named by `InvocationRecord.lease_owner` is open."""
        parsed = self._parsed(lease_owner)
        if parsed is None:
            return True
        description = await if_exists(self._handle(parsed).describe())
        if description is None or description.raw_info.first_run_id != parsed.first_run_id:
            return False  # otherwise another workflow has the id now
        return description.status is WorkflowExecutionStatus.RUNNING

    async def interrupt(self, key: SessionKey, record: InvocationRecord) -> None:
        """Cancel the workflow of an invocation; a repeat adds nothing to its history."""
        del key
        if (parsed := self._parsed(record.lease_owner)) is not None:
            handle = self.client.get_workflow_handle(
                parsed.workflow_id, first_execution_run_id=parsed.first_run_id
            )
            await reached(handle.cancel())

    async def steer(
        self, key: SessionKey, record: InvocationRecord, answer: InvocationAnswer
    ) -> bool:
        """Deliver a message to the workflow of an invocation; return False if it is closed."""
        del key
        parsed = self._parsed(record.lease_owner)
        if parsed is None:
            return False
        return await reached(self._handle(parsed).signal("answer", answer.to_value()))

    def _parsed(self, lease_owner: str) -> TemporalLeaseOwner | None:
        parsed = TemporalLeaseOwner.parse(lease_owner)
        return parsed if parsed and parsed.namespace == self.client.namespace else None

    def _handle(self, parsed: TemporalLeaseOwner) -> WorkflowHandle[Any, Any]:
        return self.client.get_workflow_handle(parsed.workflow_id)
