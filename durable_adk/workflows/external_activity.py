"""External activities that back tools: how they are scheduled, and how they end."""

import asyncio
from typing import Any

from temporalio import workflow
from temporalio.common import Priority, RawValue, RetryPolicy
from temporalio.exceptions import (
    ActivityError,
    ApplicationError,
    FailureError,
    TimeoutError as TemporalTimeoutError,
    TimeoutType,
    is_cancelled_exception,
)

from durable_adk.errors import DurableAdkError, ToolResultError, text_of
from durable_adk.wire.activity_call import ActivityCall, ActivityOptions, failed, overdue

TOO_LARGE = ["PayloadsTooLarge", "PayloadSizeError"]
"""Failures that are not retried. By default Temporal retries an activity for ever if its result is
too large (1c)."""


async def run(call: ActivityCall, *, summary: str) -> Any:
    """Run an external activity; its activity id is the call's idempotency key.

    A cancellation does not wait for its end: without heartbeats it would never be notified.

    Raises:
        ToolError: It failed, and is not retried again.
        ToolTimeoutError: It did not finish in time.
        ToolResultError: Its result is not JSON.
        CancelledError: The invocation was cancelled.
    """
    options = call.options
    try:
        result: Any = await workflow.execute_activity(
            call.activity,
            args=call.args,
            # Decoded below: an unreadable value must not fail the workflow task for ever.
            result_type=RawValue,
            activity_id=call.activity_id,
            task_queue=options.task_queue,
            schedule_to_close_timeout=options.schedule_to_close_timeout,
            schedule_to_start_timeout=options.schedule_to_start_timeout,
            start_to_close_timeout=options.start_to_close_timeout,
            heartbeat_timeout=options.heartbeat_timeout,
            retry_policy=_retry_policy(options),
            priority=Priority(**options.priority.model_dump()) if options.priority else _INHERITED,
            cancellation_type=workflow.ActivityCancellationType.TRY_CANCEL,
            summary=summary,
        )
    except FailureError as error:
        raise _reason(call.activity, error) from error
    return _decoded(call.activity, result)


_INHERITED = Priority.default


def _retry_policy(options: ActivityOptions) -> RetryPolicy:
    given = options.retry_policy.model_dump()
    given["non_retryable_error_types"] = [*(given["non_retryable_error_types"] or []), *TOO_LARGE]
    return RetryPolicy(**given)


def _decoded(activity: str, result: RawValue | None) -> Any:
    if result is None:
        return None
    try:
        return workflow.payload_converter().from_payload(result.payload)
    except Exception as error:  # noqa: BLE001 - a converter may raise anything
        raise ToolResultError(
            f"The result of activity {activity!r} cannot be read: {text_of(error)}"
        ) from None


def _reason(activity: str, error: FailureError) -> DurableAdkError | asyncio.CancelledError:
    """Return the tool's error; an external error never becomes ours, whatever its details."""
    if is_cancelled_exception(error):
        return asyncio.CancelledError()
    cause = error.cause if isinstance(error, ActivityError) else error
    if isinstance(cause, ApplicationError):
        return failed(activity, cause.type or "ApplicationError", cause.message)
    if isinstance(cause, TemporalTimeoutError):
        return overdue(activity, _why(cause))
    return failed(activity, type(cause or error).__name__, text_of(cause or error))


def _why(error: TemporalTimeoutError) -> str:
    if error.type is TimeoutType.SCHEDULE_TO_START:
        return "before a worker took it (schedule to start)"
    what = (error.type.name if error.type else "timeout").lower().replace("_", " ")
    last = error.cause
    said = f"; its last attempt said {text_of(last)!r}" if isinstance(last, FailureError) else ""
    return f"when its time was up ({what}){said}"
