"""Runs an agent from another workflow."""

from typing import Any

from temporalio import workflow
from temporalio.exceptions import ApplicationError, ChildWorkflowError, is_cancelled_exception

from durable_adk.client.invocations import TASK_TIMEOUT, as_argument, priority_of
from durable_adk.errors import (
    DurableAdkError,
    InvocationTerminatedError,
    as_detail,
    class_name,
    from_detail,
)
from durable_adk.settings import DEFAULT_TASK_QUEUE
from durable_adk.wire.messages import InvocationRequest, InvocationResult

__all__ = ["AgentRunError", "InvocationRequest", "InvocationResult", "run_agent"]


class AgentRunError(ApplicationError):
    """An invocation failed. If it is not caught, the workflow fails with the error's type.

    It is a Temporal error. A class of `durable_adk.errors` would fail the workflow task instead of
    the workflow, and Temporal would retry the task for ever.
    """

    def __init__(self, error: DurableAdkError) -> None:
        super().__init__(
            error.message, as_detail(error), type=class_name(error), non_retryable=True
        )
        self.error = error
        """The original error, of a class of `durable_adk.errors`."""


async def run_agent(
    request: InvocationRequest,
    *,
    task_queue: str = DEFAULT_TASK_QUEUE,
    id: str | None = None,  # noqa: A002 - the SDK's name
    **options: Any,
) -> InvocationResult:
    """Run an invocation as a child of this workflow, and wait for its result.

    Replay-safe: it only starts a child. Cancelling the caller, or the task that awaits this,
    cancels the invocation; this returns once its closing events are committed. If the caller is
    terminated or times out, cancellation of the invocation is requested.

    Args:
        request: The request. Without `invocation_id` the invocation generates one.
        task_queue: The task queue of the app's workers.
        id: The child's workflow id; None: a generated one, the same at every replay.
        **options: Other options of `temporalio.workflow.start_child_workflow`, such as `priority`.

    Raises:
        AgentRunError: The invocation failed, or its request is malformed.
        ChildWorkflowError: The invocation was cancelled.
    """
    kept: dict[str, Any] = {
        "task_timeout": TASK_TIMEOUT,
        "parent_close_policy": workflow.ParentClosePolicy.REQUEST_CANCEL,
        "cancellation_type": workflow.ChildWorkflowCancellationType.WAIT_CANCELLATION_COMPLETED,
        "static_summary": request.app,
    }
    if request.run_config.priority is not None:  # else it has the caller's priority
        kept["priority"] = priority_of(request)
    try:
        result = await workflow.execute_child_workflow(
            "Invocation", as_argument(request), id=id, task_queue=task_queue, **{**kept, **options}
        )
    except ChildWorkflowError as failure:
        if is_cancelled_exception(failure):
            raise
        raise AgentRunError(_error(failure)) from failure
    return InvocationResult.read(result)


def _error(failure: ChildWorkflowError) -> DurableAdkError:
    cause = failure.cause
    if isinstance(cause, ApplicationError):
        detail = next(iter(cause.details), None)
        if isinstance(detail, dict):
            return from_detail(detail)  # pyright: ignore[reportUnknownArgumentType]: as_detail made it
    return InvocationTerminatedError(f"The invocation's workflow was terminated: {cause}")
