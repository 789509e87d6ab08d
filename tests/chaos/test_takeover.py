"""Whatever a worker was doing when it died, another one continues (D19)."""

import asyncio
from collections.abc import Callable
from contextlib import AsyncExitStack
from pathlib import Path

from durable_adk.apps.registry import AppRegistry, serve
from durable_adk.embedded import TemporalServer
from tests.chaos.conftest import MakePlace
from tests.support.apps import all_apps
from tests.support.matrix_runs import Place
from tests.support.matrix_takeover import SITUATIONS, Situation, Stage, Times
from tests.support.processes import Control
from tests.support.scripts import shape
from tests.support.worker_pool import WorkerPool

AT_ONCE = 3
ANSWERED = "approval"
"""The app whose control run nobody answers."""


async def test_whatever_a_worker_was_doing_another_one_goes_on(
    server: TemporalServer,
    make_place: MakePlace,
    tmp_path: Path,
    controls: dict[str, Control],
    record_property: Callable[[str, object], None],
) -> None:
    """D19, I11, F7, F43: killed, or stopped; and what is stored is as without a death.

    How soon, ``python -m benchmarks.takeover`` tells.
    """
    pool = WorkerPool(address=server.address, folder=tmp_path)
    turn = asyncio.Semaphore(AT_ONCE)

    async def sample(situation: Situation) -> Times:
        made = make_place()
        store = f"sqlite:///{made.folder}/sessions.db"
        place = Place(folder=made.folder, client=made.client, address=server.address, store=store)
        serve(place.queue, AppRegistry(all_apps(place.folder).values()))
        async with turn, AsyncExitStack() as stack:
            stack.push_async_callback(place.sessions.close)
            stage = Stage(pool, place, stack)
            times = await situation(stage)
            await place.workflow(stage.app).result()
            if stage.app != ANSWERED:
                log = await place.log(stage.app)
                expected = controls[stage.app].stored
                assert [shape(event) for event in log] == [shape(event) for event in expected]
            return times

    try:
        taken = await asyncio.gather(*map(sample, SITUATIONS))
    finally:
        pool.close()
    for what, seconds in (item for times in taken for item in times.items()):
        print(f"{what}: {seconds:.2f} s")  # noqa: T201
        record_property(what, round(seconds, 2))
