"""Results of activities, as the server reports them to a workflow."""

from temporalio.api.common.v1 import ActivityType, Payload
from temporalio.api.failure.v1 import (
    ActivityFailureInfo,
    CanceledFailureInfo,
    Failure,
    TimeoutFailureInfo,
)
from temporalio.bridge.proto.activity_result import (
    ActivityResolution,
    Cancellation,
    Failure as FailureResult,
    Success,
)

from simulation.attempts import Scheduled

_TOO_LATE = TimeoutFailureInfo(timeout_type="TIMEOUT_TYPE_SCHEDULE_TO_CLOSE")


def completed(result: Payload) -> ActivityResolution:
    """It has a result."""
    return ActivityResolution(completed=Success(result=result))


def timed_out() -> ActivityResolution:
    """A local activity took too long."""
    failure = Failure(message="timed out", timeout_failure_info=_TOO_LATE)
    return ActivityResolution(failed=FailureResult(failure=failure))


def failed(activity: Scheduled, cause: Failure) -> ActivityResolution:
    """It failed for good; only the failures of normal activities come wrapped."""
    failure = cause if activity.local else _wrapped(activity, cause)
    return ActivityResolution(failed=FailureResult(failure=failure))


def cancelled(activity: Scheduled) -> ActivityResolution:
    """It was cancelled."""
    cause = Failure(message="cancelled", canceled_failure_info=CanceledFailureInfo())
    failure = cause if activity.local else _wrapped(activity, cause)
    return ActivityResolution(cancelled=Cancellation(failure=failure))


def _wrapped(activity: Scheduled, cause: Failure) -> Failure:
    info = ActivityFailureInfo(activity_type=ActivityType(name=activity.name))
    return Failure(message="Activity task failed", cause=cause, activity_failure_info=info)
