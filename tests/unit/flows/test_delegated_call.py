"""Activities of others, and the room that their results have."""

from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest

from durable_adk.flows import delegated_call
from durable_adk.wire.activity_call import ActivityCall, ActivityEnd, ActivityOptions


class Runtime:
    """Runs activities, and knows which."""

    def __init__(self, result: Any) -> None:
        self.ran: list[str] = []
        self.result = result

    def now(self) -> float:
        """Any time."""
        return 1.0

    async def run_activity(self, step: Any, call: ActivityCall) -> Any:
        """Charge, for good."""
        del step
        self.ran.append(call.activity)
        return self.result


async def run(
    runtime: Runtime, *, room: int, local: int = 0, args: int = 0, changed: bool = False
) -> ActivityEnd:
    """A call with so many bytes of state and of arguments."""
    given = {"text": "x" * args}
    call = ActivityCall(
        activity="Charge",
        activity_id="i",
        args=[given],
        options=ActivityOptions(start_to_close_timeout=timedelta(seconds=1)),
        changed=given if changed else None,
    )
    state: Any = SimpleNamespace(runtime=runtime)
    step: Any = SimpleNamespace(local_state={"temp:x": "y" * local})
    return await delegated_call._run_activity(state, step, call, room)


@pytest.mark.parametrize(
    "beside",
    [{"room": 750_000, "local": 745_000}, {"room": 750_000, "args": 742_000, "changed": True}],
)
async def test_an_activity_whose_result_has_no_room_is_not_run(beside: dict[str, Any]) -> None:
    """I6: a charge that is made and then reported as failed would be made again."""
    runtime = Runtime({"charged": 1})
    end = await run(runtime, **beside)
    assert runtime.ran == []
    assert end.error is not None
    assert "was not run" in end.error["message"]


async def test_what_was_sent_takes_no_room_of_what_comes_back() -> None:
    """1c: the step after it has the result, and not the arguments."""
    runtime = Runtime("r" * 700_000)
    end = await run(runtime, room=750_000, args=700_000)
    assert (runtime.ran, end.error, end.result) == (["Charge"], None, runtime.result)


async def test_a_result_that_is_too_large_is_told() -> None:
    """1c: it has run, and the model gets the reason."""
    runtime = Runtime("r" * 750_000)
    end = await run(runtime, room=750_000)
    assert (runtime.ran, end.result) == (["Charge"], None)
    assert end.error is not None
    assert end.error["class"] == "ToolResultError"
