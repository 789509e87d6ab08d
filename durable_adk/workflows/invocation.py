"""Workflow type ``Invocation``: one run of an app's agents for one user message."""

from typing import Any

from temporalio import workflow
from temporalio.common import RawValue
from temporalio.exceptions import ApplicationError

with workflow.unsafe.imports_passed_through():
    from durable_adk.errors import DurableAdkError, InvalidRequestError, as_detail, class_name
    from durable_adk.flows.event_loop import run_invocation
    from durable_adk.holders import TemporalHolder
    from durable_adk.messages import InvocationRequest, InvocationResult
    from durable_adk.workflows.temporal_runtime import TemporalRuntime

TYPE_NAME = "Invocation"
ARGUMENT_ERRORS = [TypeError, ValueError, KeyError, RuntimeError]
"""What a start with no argument, two, or an unknown encoding ends in, before our code is reached.

It fails the workflow. By default it would fail the workflow task, again and again. A history that
does not fit the code (NondeterminismError) is none of these: that waits for the right code.
"""


@workflow.defn(name=TYPE_NAME, failure_exception_types=ARGUMENT_ERRORS)
class InvocationWorkflow:
    """Drives the event loop; every effect of it is an activity (semantics DUR-1..7)."""

    @workflow.run
    async def run(self, request: RawValue) -> InvocationResult:
        """Run the invocation described by an `InvocationRequest` in plain JSON.

        The argument is taken as it comes and read here: one that cannot be read would fail the
        workflow task for ever, so it fails the workflow, with the reason.

        Raises:
            ApplicationError: Of the name of one of `durable_adk.errors`, with `as_detail` in its
                details.
        """
        try:
            parsed = InvocationRequest.parse(_decoded(request))
            return await run_invocation(TemporalRuntime(), parsed, holder=_holder())
        except DurableAdkError as error:
            raise ApplicationError(
                error.message, as_detail(error), type=class_name(error), non_retryable=True
            ) from error


def _decoded(request: RawValue) -> Any:
    try:
        return workflow.payload_converter().from_payload(request.payload)
    except Exception as error:  # noqa: BLE001 - a converter may raise anything
        raise InvalidRequestError(f"The argument of Invocation is no JSON: {error}") from None


def _holder() -> str:
    info = workflow.info()
    return str(TemporalHolder(info.namespace, info.first_execution_run_id, info.workflow_id))
