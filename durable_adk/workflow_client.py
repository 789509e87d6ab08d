"""Asking an agent from a workflow of one's own."""

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
    """An invocation failed. Not caught, it fails the workflow, with the invocation's type.

    It is an error of Temporal's and none of `durable_adk.errors`: one of those would not fail the
    caller's workflow but its task, which Temporal repeats for ever.
    """

    def __init__(self, error: DurableAdkError) -> None:
        super().__init__(
            error.message, as_detail(error), type=class_name(error), non_retryable=True
        )
        self.error = error
        """What it failed with, as a class of `durable_adk.errors`."""


async def run_agent(
    request: InvocationRequest,
    *,
    task_queue: str = DEFAULT_TASK_QUEUE,
    id: str | None = None,  # noqa: A002 - the SDK's name
    **options: Any,
) -> InvocationResult:
    """Run an invocation as a child of this workflow, and wait for its end.

    Replay-safe: it only starts a child. Cancelling the caller, or the task that waits here, cancels
    the invocation, and this returns only when it has sealed its session. If the caller is
    terminated or times out, the invocation is asked to cancel.

    Args:
        request: What to send. Without `invocation_id` the invocation draws its own.
        task_queue: Where the app's workers listen.
        id: The child's workflow id; None: Temporal draws one, the same at every replay.
        **options: More of `temporalio.workflow.start_child_workflow`, such as `priority`.

    Raises:
        AgentRunError: The invocation failed, or its request is malformed.
        ChildWorkflowError: It was cancelled.
    """
    kept: dict[str, Any] = {
        "task_timeout": TASK_TIMEOUT,
        "parent_close_policy": workflow.ParentClosePolicy.REQUEST_CANCEL,
        "cancellation_type": workflow.ChildWorkflowCancellationType.WAIT_CANCELLATION_COMPLETED,
        "static_summary": request.app,
    }
    if request.run_config.priority is not None:  # else it is the caller's
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
    return InvocationTerminatedError(f"The invocation's workflow was closed from outside: {cause}")
