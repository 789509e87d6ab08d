"""A worker dies where an invocation continues in a new run of its workflow (F30)."""

import asyncio

import pytest
from temporalio.client import Client

from durable_adk.client import workflow_id
from tests.support.processes import INVOCATION, Control, Workplace
from tests.support.scripts import shape
from tests.support.waiting import PATIENCE

MOMENTS = "roll.before:kill@1;roll.after:kill@1;roll.read:kill@1"
"""One after the other; each by itself is in tests/chaos/test_failpoint_matrix.py."""


@pytest.mark.parametrize("app", ["charge", "count"])
async def test_a_worker_killed_at_a_new_run_loses_and_doubles_nothing(
    app: str, place: Workplace, controls: dict[str, Control], client: Client
) -> None:
    """F30, I7: what is stored and yielded is that of an undisturbed invocation in one run.

    No model is asked, and no tool run, a second time.
    """
    place.history = 1
    control = controls[app]
    async with place.restarted_worker(MOMENTS):
        yielded = await asyncio.wait_for(place.all_of(app), PATIENCE)
    assert place.deaths == MOMENTS.count("@")
    assert [shape(event) for event in yielded] == [shape(event) for event in control.yielded]
    assert [shape(event) for event in await place.log(app)] == [shape(e) for e in control.stored]
    assert await place.state(app) == control.state
    if app != "count":
        assert set(place.traces.asked.values()) == {1}
        assert len(place.traces.runs("charge")) == place.traces.effects == 1
        name = workflow_id(place.key(app), INVOCATION)
        runs = [run async for run in client.list_workflows(f"WorkflowId = '{name}'")]
        assert len(runs) == 2
