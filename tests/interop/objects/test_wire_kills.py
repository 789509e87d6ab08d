"""The worker is killed between the answer of a real model client and its commit."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from temporalio.client import Client

from durable_adk.agents.run_config import RunConfig, StreamingMode
from durable_adk.apps.registry import AppRegistry, serve
from durable_adk.embedded import TemporalServer
from durable_adk.runners import Runner
from durable_adk.sessions import SqliteSessionService
from harness.forked_worker import ForkedWorker
from tests.interop.objects.wire_worker import PRELOAD, Order, main
from tests.interop.objects.wires import WIRES, Wire
from tests.support.waiting import PATIENCE

TEXT = "It rains in Lima and in Quito."
CALLS = [("weather", {"city": "Lima"}), ("weather", {"city": "Quito"})]
KILLS: dict[str, list[Any]] = {
    "model.after_call:kill@1": [CALLS, CALLS, TEXT],
    "commit.before:kill@1": [CALLS, CALLS, TEXT],
    "commit.after:kill@1": [CALLS, TEXT],
    "model.after_call:kill@2": [CALLS, TEXT, TEXT],
}
"""Where the worker dies, and the answers that it gets: an uncommitted one is asked for again."""


@pytest.mark.parametrize("streams", [False, True], ids=["whole", "streamed"])
async def test_an_answer_that_a_killed_worker_had_is_asked_for_once_more(
    *, streams: bool, server: TemporalServer, client: Client, tmp_path: Path
) -> None:
    """Unless it was committed; the session has each event once, and each chunk's text is whole.

    Each wire with one of the kills, all at the same time: they wait for workers that are dead.
    """

    async def one(index: int, wire: Wire) -> None:
        at = list(KILLS)[(index + 2 * streams) % len(KILLS)]
        folder = tmp_path / f"{wire.name}-{wire.provider}"
        folder.mkdir()
        try:
            await _asked_once_more(
                wire, streams=streams, at=at, server=server, client=client, folder=folder
            )
        except BaseException as error:
            error.add_note(f"with {folder.name} and {at}")
            raise

    async with asyncio.TaskGroup() as group:
        for index, wire in enumerate(WIRES):
            group.create_task(one(index, wire))


async def _asked_once_more(
    wire: Wire, *, streams: bool, at: str, server: TemporalServer, client: Client, folder: Path
) -> None:
    provider = wire.server()
    await provider.start()
    provider.script = KILLS[at]
    order = Order(wire, provider.url, f"kills-{folder}", at)
    serve(order.queue, AppRegistry([order.app()]))  # for the replays at the end
    sessions = SqliteSessionService(folder / "sessions.db")
    runner = Runner(
        app=order.app(),
        session_service=sessions,
        client=client,
        task_queue=order.queue,
        auto_create_session=True,
    )
    config = RunConfig(streaming_mode=StreamingMode.SSE if streams else StreamingMode.NONE)
    first = ForkedWorker(main, server.address, folder, PRELOAD)
    second = ForkedWorker(main, server.address, folder, PRELOAD)
    async with runner, first, second:
        await first.obey(order)

        async def take_over() -> None:
            await first.end()
            await second.obey(order)

        succession = asyncio.create_task(take_over())
        run = runner.run_async(user_id="u", session_id="s", new_message="Rain?", run_config=config)
        heard = [event async for event in run if not event.partial]
        # The run may end before the second worker has reported that it serves.
        await asyncio.wait_for(succession, PATIENCE)  # in vain if the first was not killed
        session = await sessions.get_session(app_name="app", user_id="u", session_id="s")
    await sessions.close()
    await provider.close()
    said = [event.text or len(event.content.parts) for event in session.events]
    assert said == ["Rain?", 2, 2, TEXT]
    assert [event.id for event in heard] == [event.id for event in session.events[1:]]
    assert len(provider.requests) == len(KILLS[at])
