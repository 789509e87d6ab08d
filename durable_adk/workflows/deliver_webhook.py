"""Workflow type ``DeliverWebhook``: one webhook to one endpoint, retried until delivered."""

from datetime import timedelta

from temporalio import workflow
from temporalio.common import RawValue, RetryPolicy
from temporalio.exceptions import FailureError

with workflow.unsafe.imports_passed_through():
    from durable_adk.activities.effects import row_of
    from durable_adk.errors import DurableAdkError
    from durable_adk.retrying import STORE_TIMEOUT
    from durable_adk.wire.webhook import DELIVER_WEBHOOK, DeliverStep
    from durable_adk.workflows.invocation import ARGUMENT_ERRORS, decoded, failure
    from durable_adk.workflows.temporal_runtime import reason

GIVEN_UP = timedelta(days=3)
"""Time after which a webhook is no longer retried."""
RETRY = RetryPolicy(
    initial_interval=timedelta(seconds=1),
    backoff_coefficient=4.0,
    maximum_interval=timedelta(hours=6),
)


@workflow.defn(name=DELIVER_WEBHOOK, failure_exception_types=ARGUMENT_ERRORS)
class DeliverWebhookWorkflow:
    """Sends one webhook in an activity; its retries are not in the history."""

    @workflow.run
    async def run(self, request: RawValue) -> RawValue:
        """Deliver the webhook of a `DeliverStep`; returns a `Delivered`.

        Raises:
            ApplicationError: It was refused, or not delivered in time.
        """
        try:
            step = DeliverStep.read(decoded(request))
            row = row_of(step)
            return await workflow.execute_activity(
                row.name,
                step,
                result_type=RawValue,  # passed on undecoded
                start_to_close_timeout=timedelta(seconds=STORE_TIMEOUT),
                schedule_to_close_timeout=GIVEN_UP,
                retry_policy=RETRY,
                summary=row.summary(step),
            )
        except FailureError as error:
            known = reason(error)
            raise (failure(known) if isinstance(known, DurableAdkError) else known) from error
