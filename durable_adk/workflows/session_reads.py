"""Workflow types ``SessionEvents`` and ``ModelRequests``, which read a session in one activity.

The data is in the session store, and agents' code only on workers: only an activity reaches both.
So each read has a history of its own, of a dozen events, and the invocation's history does not
grow.
"""

from collections.abc import Callable
from datetime import timedelta
from typing import Any, TypeVar

from temporalio import workflow
from temporalio.common import RawValue
from temporalio.exceptions import FailureError

with workflow.unsafe.imports_passed_through():
    from durable_adk.activities.effects import row_of
    from durable_adk.errors import DurableAdkError
    from durable_adk.retrying import STORE_TIMEOUT
    from durable_adk.settings import Limits
    from durable_adk.wire.effect import Effect
    from durable_adk.wire.event_page import SESSION_EVENTS, ReadSessionEventsStep
    from durable_adk.wire.model_request import MODEL_REQUESTS, ReadModelRequestsStep
    from durable_adk.workflows.invocation import ARGUMENT_ERRORS, decoded, failure
    from durable_adk.workflows.temporal_runtime import STORE_RETRY, reason


@workflow.defn(name=SESSION_EVENTS, failure_exception_types=ARGUMENT_ERRORS)
class SessionEventsWorkflow:
    """Reads a page of a session's events, for any Temporal client."""

    @workflow.run
    async def run(self, request: RawValue) -> RawValue:
        """Return the `EventPage` that a `ReadSessionEventsStep` in plain JSON requests.

        Raises:
            ApplicationError: Its type is the name of an error in `durable_adk.errors`.
        """
        return await _read(request, ReadSessionEventsStep.parse, lambda step: step.wait)


@workflow.defn(name=MODEL_REQUESTS, failure_exception_types=ARGUMENT_ERRORS)
class ModelRequestsWorkflow:
    """Rebuilds the requests of model calls, for a server without the agents' code."""

    @workflow.run
    async def run(self, request: RawValue) -> RawValue:
        """Return the `ModelRequests` that a `ReadModelRequestsStep` in plain JSON names.

        Raises:
            ApplicationError: Its type is the name of an error in `durable_adk.errors`.
        """
        return await _read(request, ReadModelRequestsStep.parse, lambda step: step.attempt_timeout)


S = TypeVar("S", bound=Effect[Any])


async def _read(
    request: RawValue, parse: Callable[[Any], S], seconds: Callable[[S], float]
) -> RawValue:
    """Return the result of the activity for a workflow's step.

    Args:
        request: The workflow's argument.
        parse: Parses it to a step.
        seconds: Time of one attempt beside its access to the store.

    Raises:
        ApplicationError: Its type is the name of an error in `durable_adk.errors`.
    """
    try:
        step = parse(decoded(request))
        row = row_of(step)
        longest = timedelta(seconds=seconds(step) + STORE_TIMEOUT)
        return await workflow.execute_activity(
            row.name,
            step,
            result_type=RawValue,  # passed on undecoded
            start_to_close_timeout=longest,
            schedule_to_close_timeout=2 * longest,
            heartbeat_timeout=timedelta(seconds=Limits().heartbeat_timeout),
            retry_policy=STORE_RETRY,
            summary=row.summary(step),
        )
    except FailureError as error:
        known = reason(error)
        raise (failure(known) if isinstance(known, DurableAdkError) else known) from error
    except DurableAdkError as error:
        raise failure(error) from error
