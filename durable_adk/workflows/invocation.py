"""Workflow type ``Invocation``: one run of an app's agents for one user message."""

from typing import Any

from temporalio import workflow
from temporalio.exceptions import ApplicationError

with workflow.unsafe.imports_passed_through():
    from durable_adk.errors import DurableAdkError, as_detail, class_name
    from durable_adk.flows.event_loop import run_invocation
    from durable_adk.holders import TemporalHolder
    from durable_adk.payloads import InvocationRequest, InvocationResult
    from durable_adk.workflows.temporal_runtime import TemporalRuntime

TYPE_NAME = "Invocation"


@workflow.defn(name=TYPE_NAME)
class InvocationWorkflow:
    """Drives the event loop; every effect of it is an activity (semantics DUR-1..7)."""

    @workflow.run
    async def run(self, request: Any = None) -> InvocationResult:
        """Run the invocation described by an `InvocationRequest` in plain JSON.

        The argument is taken as it comes and read here: an argument the converter cannot read
        would fail the workflow task for ever, a malformed one fails the workflow with the reason.

        Raises:
            ApplicationError: Of the name of one of `durable_adk.errors`, with `as_detail` in its
                details.
        """
        try:
            return await run_invocation(
                TemporalRuntime(), InvocationRequest.parse(request), holder=_holder()
            )
        except DurableAdkError as error:
            raise ApplicationError(
                error.message, as_detail(error), type=class_name(error), non_retryable=True
            ) from error


def _holder() -> str:
    info = workflow.info()
    return str(TemporalHolder(info.namespace, info.first_execution_run_id, info.workflow_id))
