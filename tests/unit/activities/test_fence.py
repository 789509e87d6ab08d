"""Attempts of an activity whose later attempt runs: one that was frozen, for example."""

import asyncio
from collections.abc import Coroutine
from dataclasses import replace
from typing import Any, TypeVar

import pytest
from temporalio.testing import ActivityEnvironment

from durable_adk.activities.fence import is_superseded, raise_fence
from durable_adk.activities.node.dynamic_loop import DynamicNodeRuntime
from durable_adk.errors import LeaseLostError
from durable_adk.settings import Limits
from tests.support.steps import INVOCATION, KEY, Steps, called

T = TypeVar("T")


async def attempt(number: int, work: Coroutine[Any, Any, T], activity: str = "7") -> T:
    """Do something as an attempt of an activity."""
    environment = ActivityEnvironment()
    environment.info = replace(environment.info, attempt=number, activity_id=activity)
    return await environment.run(lambda: asyncio.ensure_future(work))


async def test_only_earlier_attempts_of_the_same_activity_are_superseded() -> None:
    """F8: by the order of numbers, not of texts."""
    steps = Steps(called("f"), tools=[])
    await steps.tool_step()
    deps = steps.effects.deps
    await attempt(10, raise_fence(deps, KEY, INVOCATION))
    look = [await attempt(n, is_superseded(deps, KEY, INVOCATION)) for n in (1, 9, 10, 11)]
    assert look == [True, True, False, False]
    for other in ("6", "8", "77"):
        assert not await attempt(1, is_superseded(deps, KEY, INVOCATION), other)
    assert not await is_superseded(deps, KEY, INVOCATION)  # no activity, so no other attempt


async def test_the_code_of_a_superseded_attempt_has_no_steps_performed() -> None:
    """F8, GR-155: so it runs no tool of an agent that it calls."""
    ran: list[int] = []

    def f() -> str:
        ran.append(1)
        return "done"

    steps = Steps(called("f"), tools=[f])
    step = await steps.tool_step()
    deps = steps.effects.deps
    runtime = DynamicNodeRuntime(deps, (KEY, INVOCATION), steps.effects, Limits())
    await attempt(2, raise_fence(deps, KEY, INVOCATION))
    with pytest.raises(LeaseLostError, match="later attempt"):
        await attempt(1, runtime.perform(step))
    assert ran == []
    await attempt(2, runtime.perform(step))
    assert ran == [1]
