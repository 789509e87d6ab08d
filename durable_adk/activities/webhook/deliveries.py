"""Starts the workflows that deliver webhooks."""

from dataclasses import dataclass
from datetime import timedelta

from temporalio.client import Client
from temporalio.common import WorkflowIDConflictPolicy, WorkflowIDReusePolicy
from temporalio.exceptions import WorkflowAlreadyStartedError
from temporalio.service import RPCError, RPCStatusCode

from durable_adk.errors import TemporalUnavailableError
from durable_adk.log import get_logger
from durable_adk.wire.webhook import DELIVER_WEBHOOK, DeliverStep

TASK_TIMEOUT = timedelta(seconds=3)
_FINAL = (
    *(RPCStatusCode.INVALID_ARGUMENT, RPCStatusCode.PERMISSION_DENIED),
    *(RPCStatusCode.UNAUTHENTICATED, RPCStatusCode.UNIMPLEMENTED),
)
"""Errors that a retry would repeat."""

logger = get_logger(__name__)


@dataclass(frozen=True)
class Deliveries:
    """The deliveries of one task queue."""

    client: Client
    task_queue: str

    async def start(self, step: DeliverStep) -> None:
        """Start a delivery, unless it was started before.

        One that Temporal will never start is logged and skipped: the invocation must not wait for
        an operator because of it.

        Raises:
            TemporalUnavailableError: Temporal does not respond.
        """
        try:
            await self.client.start_workflow(
                DELIVER_WEBHOOK,
                step.to_value(),
                id=step.workflow_id,
                task_queue=self.task_queue,
                task_timeout=TASK_TIMEOUT,
                id_reuse_policy=WorkflowIDReusePolicy.REJECT_DUPLICATE,
                id_conflict_policy=WorkflowIDConflictPolicy.USE_EXISTING,
                static_summary=f"{step.app}: {step.status}",
            )
        except WorkflowAlreadyStartedError:
            return  # it has ended already
        except RPCError as error:
            if error.status in _FINAL:
                logger.warning("webhook.not_started", endpoint=step.endpoint, reason=error.message)
                return
            raise TemporalUnavailableError(f"Temporal did not answer: {error.message}") from error
