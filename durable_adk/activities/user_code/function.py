"""Runs a function of a custom agent as a step."""

import asyncio

from durable_adk.activities.step import ActiveStep
from durable_adk.agents.step_function import READ_EVENTS, find, wants_context
from durable_adk.calling import call, contained, time_limit
from durable_adk.calling.copies import own_copy
from durable_adk.context.activity import ReadonlyContext
from durable_adk.errors import (
    AgentError,
    PayloadTooLargeError,
    StateValueError,
    StoreUnavailableError,
    ToolResultError,
    ToolTimeoutError,
    as_detail,
    wrapped,
)
from durable_adk.json_values import canonical, check_json, to_json_value
from durable_adk.wire.messages import check_size
from durable_adk.wire.steps import FunctionStep, StepResult


async def run_function(active: ActiveStep[FunctionStep]) -> StepResult:
    """Run the function and return its result as JSON, or its exception as the result's `error`.

    Like a tool, it runs at least once: if the worker dies during the run, another runs it again.

    Raises:
        StoreUnavailableError: The function raised this error and is to be retried.
    """
    reads = active.step.function == READ_EVENTS
    return await (_events(active) if reads else _run(active))


async def _run(active: ActiveStep[FunctionStep]) -> StepResult:
    step = active.step
    agent = active.deps.registry.agent(step.key.app_name, step.agent)
    function = find(agent, step.function)
    # In process these are the objects of the agent's body.
    args, kwargs = own_copy(step.args), own_copy(step.kwargs)
    if wants_context(function):
        await active.load()
        kwargs = {**kwargs, "context": ReadonlyContext(active.scope)}
    await active.attempt.begins()
    limit: asyncio.Timeout | None = None
    try:
        async with time_limit(step.attempt_timeout) as limit:
            value = await contained(call(function, *args, **kwargs))
        value = to_json_value(value)
        check_json(value, f"the result of {step.function}")
        check_size(canonical(value), f"The result of {step.function}")
    except TimeoutError as error:
        if limit is None or not limit.expired():  # raised by the function itself
            return StepResult(error=as_detail(wrapped(AgentError, error)))
        timeout = ToolTimeoutError(
            f"{step.function} did not finish in {step.attempt_timeout:g} s; give ctx.step a "
            "longer timeout."
        )
        return StepResult(error=as_detail(timeout))
    except StoreUnavailableError:
        raise
    except StateValueError as error:
        return StepResult(error=as_detail(ToolResultError(error.message)))
    except Exception as error:  # noqa: BLE001 - user code may raise anything
        return StepResult(error=as_detail(wrapped(AgentError, error)))
    return StepResult(value=value)


async def _events(active: ActiveStep[FunctionStep]) -> StepResult:
    """Return the session's events as JSON."""
    await active.load()
    value = [event.model_dump(mode="json", exclude_none=True) for event in active.scope.events]
    try:
        check_size(canonical(value), "The session's events")
    except PayloadTooLargeError as error:
        return StepResult(error=as_detail(error))
    return StepResult(value=value)
