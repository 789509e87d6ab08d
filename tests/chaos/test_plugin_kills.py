"""A worker is killed in and after the hooks of plugins, and another one takes over."""

import asyncio

import pytest

from durable_adk.sessions import Status
from tests.support.processes import Control, Workplace
from tests.support.scripts import shape
from tests.support.waiting import PATIENCE

AGAIN = {
    # behind the loop's hooks: the message's, before_run and its event's, after_run
    "hook.before:kill@1;hook.after:kill@1,3,5,7": {
        "on_user_message": 2,
        "before_run": 2,
        "on_event": 6,
        "after_run": 2,
    },
    # behind the hooks in the steps whose events they see: of the call, the response, the text
    # what the model and the tool had answered is noted, and found again
    "commit.before:kill@2,4,6": {"on_event": 8},
}
"""Where workers die, and how often that makes something run."""


@pytest.mark.parametrize("at", AGAIN)
async def test_a_worker_killed_in_a_hook_loses_and_doubles_nothing(
    at: str, place: Workplace, controls: dict[str, Control]
) -> None:
    """I1 to I4, PLG-6: log, state and what the client sees are those of an undisturbed run.

    A hook runs again if it was running, or if its step's event had not been committed.
    """
    control = controls["plugged"]
    async with place.restarted_worker(at):
        yielded = await asyncio.wait_for(place.all_of("plugged"), PATIENCE)
        result = await place.workflow("plugged").result()
    assert place.deaths == (5 if "hook" in at else 3)
    assert [shape(event) for event in yielded] == [shape(e) for e in control.yielded]
    stored = await place.log("plugged")
    assert [shape(event) for event in stored] == [shape(e) for e in control.stored]
    assert stored[0].text == "goand plugged"
    assert {str(event.custom_metadata) for event in stored[1:]} == {"{'seen': True}"}
    assert await place.state("plugged") == control.state
    assert set(control.state) == {"before_run", "after_run", "total"}
    assert result["status"] == Status.COMPLETED
    once = {"on_user_message": 1, "before_run": 1, "on_event": 5, "after_run": 1, "charge": 1}
    runs = {name: len(place.traces.runs(name)) for name in once}
    runs["model"] = max(place.traces.asked.values())
    assert runs == once | {"model": 1} | AGAIN[at]
