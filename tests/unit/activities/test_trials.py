"""Which lost attempts count."""

from dataclasses import replace

import pytest
from temporalio.testing import ActivityEnvironment

from durable_adk.activities.attempting import MAX_LOST
from durable_adk.activities.trials import Trials
from durable_adk.errors import StoreUnavailableError
from durable_adk.reports import NONE, Reports
from durable_adk.sessions import SessionKey
from tests.support.steps import Steps, called


async def trials() -> Trials:
    """Of a tool's step in an open invocation."""
    steps = Steps(called("f"), tools=[])
    return Trials(world=steps.effects.world, step=await steps.tool_step())


async def begin(trials: Trials, number: int, reports: Reports = NONE, activity: str = "7") -> int:
    """How many were lost, as attempt `number` of an activity finds."""
    environment = ActivityEnvironment()
    environment.info = replace(environment.info, attempt=number, activity_id=activity)
    return await environment.run(trials.begin, number, reports)


async def test_workers_that_die_before_the_code_runs_say_nothing_of_it() -> None:
    """I11, F16: however many; only the first attempt, of which nobody knows, is counted."""
    assert await begin(await trials(), 10 * MAX_LOST) == 1


async def test_workers_that_die_while_the_code_runs_are_counted() -> None:
    """F12: each that had come so far, and of this activity alone."""
    made = await trials()
    assert [await begin(made, number) for number in range(2, 8)] == [1, 2, 3, 4, 5, 6]
    assert await begin(made, 9, activity="8") == 1
    # Attempt 3 came back with an error, so it was not lost.
    assert await begin(made, 8, Reports(told=((3, 3),))) == 6


async def test_an_attempt_that_is_made_twice_counts_once() -> None:
    """I7: the note is named after it."""
    made = await trials()
    assert [await begin(made, 2), await begin(made, 2), await begin(made, 3)] == [1, 1, 2]


async def test_a_worker_that_dies_while_it_waits_for_the_store_is_not_counted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """F16: nothing is noted before the step has all that it needs."""
    made = await trials()

    async def away(_: SessionKey) -> None:
        raise StoreUnavailableError

    monkeypatch.setattr("durable_adk.activities.world.STORE_PATIENCE", 0)
    with monkeypatch.context() as patched:
        patched.setattr(made.world.sessions, "read_state", away)
        for number in range(2, 9):
            with pytest.raises(StoreUnavailableError):
                await begin(made, number)
    assert await begin(made, 9) == 1
