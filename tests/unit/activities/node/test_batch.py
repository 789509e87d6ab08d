"""Items that one activity runs, with steps that do not really run."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, cast

import pytest

from durable_adk.activities.effects import row_of
from durable_adk.activities.node.batch import run_items
from durable_adk.sessions import SessionKey
from durable_adk.wire.effect import Attempt
from durable_adk.wire.graph.batch import ItemsResult, ItemsStep
from durable_adk.wire.graph.node_run import NodeEnd, NodeRef, NodeSite
from durable_adk.wire.steps import NodeStep, StepResult


class Steps:
    """Performs steps by a function."""

    def __init__(self, function: Callable[[NodeStep], Awaitable[StepResult]]) -> None:
        self._function = function

    async def perform(self, step: Any, attempt: Attempt | None = None) -> Any:
        """Perform one."""
        return await self._function(step)


async def run(function: Callable[[NodeStep], Awaitable[StepResult]]) -> ItemsResult:
    """Run five items, two at a time."""
    step = NodeStep(
        key=SessionKey("app", "u", "s"),
        invocation_id="i",
        revision=1,
        run_start=1,
        agent="wf",
        event_id="p.items",
        attempt_timeout=1,
        node="each",
        kind="function",
        site=NodeSite(path="wf@1/each@1", prefix="p", input=NodeRef(event="e")),
    )
    batch = ItemsStep(step=step, items=[(2, 4), (7, 8)], at_once=2, attempt_timeout=1)
    return await run_items(batch, Attempt(), cast("Any", Steps(function)), row_of)


def stored(step: NodeStep) -> StepResult:
    """The result of a step that has stored its output."""
    return StepResult(
        seq=int(step.event_id.split(".")[2]), node=NodeEnd(output=NodeRef(event=step.event_id))
    )


async def test_each_item_is_a_step_of_its_own() -> None:
    """D5, GR-59: with the ids and the branch that it has without a batch."""
    seen: list[NodeStep] = []

    async def perform(step: NodeStep) -> StepResult:
        seen.append(step)
        return stored(step)

    result = await run(perform)
    assert result == ItemsResult(stored={str(number): number for number in (2, 3, 4, 7, 8)})
    assert [one.event_id for one in seen] == [f"p.items.{n}.1" for n in (2, 3, 4, 7, 8)]
    assert seen[0].branch == "each@2"
    assert seen[0].named.path == "wf@1/each@1/each@2"
    assert seen[0].named.input.item == 1


async def test_an_error_that_nobody_expects_ends_the_batch() -> None:
    """Otherwise its item would be due again, for ever."""

    async def perform(step: NodeStep) -> StepResult:
        if step.event_id.startswith("p.items.3"):
            raise LookupError
        return stored(step)

    with pytest.raises(LookupError):
        await run(perform)


async def test_code_that_cancels_the_batch_ends_it() -> None:
    """Its items are not due again."""

    async def perform(step: NodeStep) -> StepResult:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        await asyncio.sleep(0)
        return stored(step)

    with pytest.raises(asyncio.CancelledError):
        await run(perform)
