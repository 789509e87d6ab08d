"""Many runs at once that have to be replayed, because all workers were killed (F40)."""

import asyncio

from tests.support.processes import INVOCATION, Workplace
from tests.support.scripts import gist
from tests.support.storm_apps import LOOKS, STORM
from tests.support.waiting import until

RUNS, BATCH = 40, 20
LONG = [
    *["asker call look", "asker response look"] * LOOKS,
    "asker call patient",
    "asker response patient",
    "asker text Done.",
]


async def run(place: Workplace, session: str) -> list[str]:
    """Send a message; return the events of its invocation in a few words each."""
    async with place.runner(STORM) as runner:
        events = runner.run_async(
            user_id=place.queue, session_id=session, new_message="go", invocation_id=INVOCATION
        )
        return [gist(event) async for event in events]


async def test_a_storm_of_replays_ends_every_run_as_undisturbed(place: Workplace) -> None:
    """F40, I11: all workers are killed; those that take their place replay all open runs at once.

    None is taken for deadlocked again and again, which would have it fail its task each time.
    """
    async with await place.start_worker() as one, await place.start_worker() as other:
        runs: list[asyncio.Task[list[str]]] = []
        for start in range(0, RUNS, BATCH):
            names = (f"s{number}" for number in range(start, start + BATCH))
            runs += [asyncio.create_task(run(place, name)) for name in names]
            await until(lambda: len(place.traces.runs("patient")) == len(runs))  # noqa: B023  # awaited here
        await asyncio.gather(one.kill(), other.kill())
    place.traces.open_gate()
    async with await place.start_worker(), await place.start_worker(), asyncio.timeout(180):
        outcomes = await asyncio.gather(*runs)
    assert outcomes == [LONG] * RUNS
    # On a machine that stands still for two seconds one may be, once.
    assert place.logs.count("TMPRL1101") < RUNS
