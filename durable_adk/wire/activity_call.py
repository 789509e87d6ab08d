"""An activity of somebody else's worker that a tool is: how it is called, and how it ended.

Values of a step, as those in `payloads`. Fields are added, never renamed or removed.
"""

from datetime import timedelta
from typing import Annotated, Any

from pydantic import Field

from durable_adk.errors import DurableAdkError, ToolError, ToolTimeoutError, raised
from durable_adk.events.event_actions import EventActions
from durable_adk.json_model import JsonModel
from durable_adk.wire.run_config import Priority

Duration = Annotated[timedelta, Field(gt=timedelta(0))]


class ActivityRetry(JsonModel):
    """Temporal's `RetryPolicy`, with its defaults: without a maximum of attempts."""

    initial_interval: Duration = timedelta(seconds=1)
    backoff_coefficient: float = Field(default=2.0, ge=1, allow_inf_nan=False)
    maximum_interval: Duration | None = None
    maximum_attempts: int = Field(default=0, ge=0)
    non_retryable_error_types: list[str] | None = None


class ActivityOptions(JsonModel):
    """How the activity is scheduled, in Temporal's words."""

    task_queue: str | None = None
    """None: the invocation's."""
    schedule_to_close_timeout: Duration | None = None
    schedule_to_start_timeout: Duration | None = None
    start_to_close_timeout: Duration | None = None
    heartbeat_timeout: Duration | None = None
    retry_policy: ActivityRetry = Field(default_factory=ActivityRetry)
    priority: Priority | None = None


class _Before(JsonModel):
    """What the callbacks before the call have done, for those after it."""

    changed: dict[str, Any] | None = None
    """The call's arguments, if they are others now."""
    actions: EventActions = Field(default_factory=EventActions)
    end_invocation: bool = False
    """Whether the agent's end was asked for."""


class ActivityCall(_Before):
    """What the loop is to run for a call, as the code of its step's time has it."""

    activity: str
    """Its type: the name by which the worker of others knows it."""
    activity_id: str
    """`ToolContext.idempotency_key`: the same for every attempt, in every run of the workflow."""
    args: list[Any] = Field(default_factory=list[Any])
    """JSON, in the order of its parameters."""
    options: ActivityOptions


class ActivityEnd(_Before):
    """How it ended, with what `ActivityCall` said of the callbacks."""

    result: Any = None
    error: dict[str, Any] | None = None
    """`errors.as_detail` of what it failed with."""
    started: float
    """When it was scheduled, in seconds since the epoch."""
    ended: float


def failed(activity: str, kind: str, message: str) -> DurableAdkError:
    """What a call fails with whose activity has raised an error of this name, for good."""
    return raised(ToolError, kind, f"Activity {activity!r} failed: {kind}: {message}")


def overdue(activity: str, why: str) -> ToolTimeoutError:
    """What a call fails with whose activity was given up.

    Args:
        activity: Its type.
        why: Which time was up.
    """
    return ToolTimeoutError(
        f"Activity {activity!r} was given up {why}. It may have taken effect all the same, in full "
        "or in part, and may still run."
    )
