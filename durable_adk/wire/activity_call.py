"""Request and result of a tool that is backed by a third-party activity.

These are values of a step, like those in `wire.steps`.
"""

from datetime import timedelta
from typing import Annotated, Any

from pydantic import Field

from durable_adk.errors import DurableAdkError, ToolError, ToolTimeoutError, raised
from durable_adk.events.event_actions import EventActions
from durable_adk.json_values import JsonModel
from durable_adk.wire.run_config import Priority

Duration = Annotated[timedelta, Field(gt=timedelta(0))]


class ActivityRetry(JsonModel):
    """Temporal's `RetryPolicy` with its defaults, which allow unlimited attempts."""

    initial_interval: Duration = timedelta(seconds=1)
    backoff_coefficient: float = Field(default=2.0, ge=1, allow_inf_nan=False)
    maximum_interval: Duration | None = None
    maximum_attempts: int = Field(default=0, ge=0)
    non_retryable_error_types: list[str] | None = None


class ActivityOptions(JsonModel):
    """Scheduling options of the activity, under Temporal's names."""

    task_queue: str | None = None
    """The activity's task queue; None: the invocation's."""
    schedule_to_close_timeout: Duration | None = None
    schedule_to_start_timeout: Duration | None = None
    start_to_close_timeout: Duration | None = None
    heartbeat_timeout: Duration | None = None
    retry_policy: ActivityRetry = Field(default_factory=ActivityRetry)
    priority: Priority | None = None


class _Before(JsonModel):
    """Changes made by the callbacks before the call, passed on to the callbacks after it."""

    changed: dict[str, Any] | None = None
    """The call's arguments, if a callback changed them."""
    actions: EventActions = Field(default_factory=EventActions)
    end_invocation: bool = False
    """Whether a callback requested the end of the agent."""


class ActivityCall(_Before):
    """The activity that the loop has to run for a call, as defined when the step ran."""

    activity: str
    """The activity type, under which the third-party worker registers it."""
    activity_id: str
    """`ToolContext.idempotency_key`: the same for every attempt, in every run of the workflow."""
    args: list[Any] = Field(default_factory=list[Any])
    """JSON values in the order of the activity's parameters."""
    options: ActivityOptions


class ActivityEnd(_Before):
    """The end of the activity, with the callbacks' changes from its `ActivityCall`."""

    result: Any = None
    error: dict[str, Any] | None = None
    """`errors.as_detail` of the activity's error."""
    started: float
    """Time at which the activity was scheduled, in seconds since the epoch."""
    ended: float


def failed(activity: str, kind: str, message: str) -> DurableAdkError:
    """Return the error of a call whose activity failed for good with an error of this name."""
    return raised(ToolError, kind, f"Activity {activity!r} failed: {kind}: {message}")


def overdue(activity: str, why: str) -> ToolTimeoutError:
    """Return the error of a call whose activity timed out.

    Args:
        activity: The activity type.
        why: Which time limit was exceeded.
    """
    return ToolTimeoutError(
        f"Activity {activity!r} was given up {why}. It may have taken effect all the same, in full "
        "or in part, and may still run."
    )
