"""Workflow type ``ModelRequests``: requests of model calls, rebuilt where the agents' code is."""

from temporalio import workflow
from temporalio.common import RawValue

with workflow.unsafe.imports_passed_through():
    from durable_adk.retrying import STORE_TIMEOUT
    from durable_adk.wire.model_request import ReadModelRequestsStep
    from durable_adk.workflows.invocation import ARGUMENT_ERRORS
    from durable_adk.workflows.session_events import read_in_activity

MODEL_REQUESTS = "ModelRequests"
"""Its type name."""


@workflow.defn(name=MODEL_REQUESTS, failure_exception_types=ARGUMENT_ERRORS)
class ModelRequestsWorkflow:
    """Rebuilds them in one activity: a server and a client have none of the agents' code."""

    @workflow.run
    async def run(self, request: RawValue) -> RawValue:
        """Rebuild what a `ReadModelRequestsStep` in plain JSON names, as `ModelRequests`.

        Raises:
            ApplicationError: Its type is the name of an error in `durable_adk.errors`.
        """
        return await read_in_activity(
            request, ReadModelRequestsStep.parse, lambda step: step.attempt_timeout + STORE_TIMEOUT
        )
