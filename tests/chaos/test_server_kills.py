"""The Temporal server is killed and restarted on its file and port amid invocations."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, aclosing
from pathlib import Path
from typing import Any, Self

import pytest

from durable_adk.apps.registry import AppRegistry, serve
from durable_adk.client import connect, temporal_backend
from durable_adk.embedded import TemporalServer
from durable_adk.events import Event
from tests.support.chaos_apps import chaos_apps
from tests.support.processes import Control, Workplace
from tests.support.replay import replay_all
from tests.support.scripts import shape
from tests.support.waiting import PATIENCE, until


class Restartable:
    """A server that can be killed and started again where it was."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._stack = AsyncExitStack()
        self._server: TemporalServer | None = None

    async def __aenter__(self) -> Self:
        await self._start(None)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stack.aclose()

    @property
    def address(self) -> str:
        """Where it listens, also after a restart."""
        assert self._server is not None
        return self._server.address

    async def restart(self) -> None:
        """SIGKILL, then a new process on the same file and port."""
        assert self._server is not None
        await self._server.kill()
        await self._start(int(self.address.rpartition(":")[2]))

    async def _start(self, port: int | None) -> None:
        self._server = await self._stack.enter_async_context(
            TemporalServer.start(data_dir=self._folder, port=port, headless=True)
        )


@pytest.fixture
async def mortal(tmp_path: Path) -> AsyncIterator[Restartable]:
    """A server of the test's own."""
    async with Restartable(tmp_path / "temporal") as server:
        yield server


@pytest.fixture
async def place(
    mortal: Restartable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Workplace]:
    """A workplace on that server; its clients wait as long for its worker as the test does.

    A worker polls a restarted server when it tries again, and a busy machine delays that.
    """
    for name in ("WORKER_CHECK", "RECONNECT"):
        monkeypatch.setattr(temporal_backend, name, PATIENCE)
    folder = tmp_path / "place"
    folder.mkdir()
    client = await connect(mortal.address)
    place = Workplace(folder=folder, client=client, address=mortal.address)
    serve(place.queue, AppRegistry(chaos_apps(folder).values()))
    yield place
    await place.sessions.close()


async def _kill_during(
    mortal: Restartable, place: Workplace, app: str, started: Callable[[], bool], times: int
) -> list[Event]:
    """Kill the server `times` times once the app is busy, then let the app continue."""
    async with place.restarted_worker():
        run = asyncio.create_task(place.all_of(app))
        await until(started)
        for _ in range(times):
            await mortal.restart()
        place.traces.open_gate()
        async with asyncio.timeout(PATIENCE):
            events = await run
            await place.workflow(app).result()
    return events


@pytest.mark.parametrize("app", ["model", "tool"])
async def test_a_server_killed_during_a_step_delays_the_run_only(
    app: str, mortal: Restartable, place: Workplace, controls: dict[str, Control]
) -> None:
    """F21, I2: the waiting client gets all events, each once; the log is as without the kill."""
    events = await _kill_during(mortal, place, app, lambda: bool(place.traces.runs()), 1)
    assert [shape(event) for event in events] == [shape(e) for e in controls[app].yielded]
    assert [shape(e) for e in await place.log(app)] == [shape(e) for e in controls[app].stored]
    # The step may run again, if its worker could not heartbeat for too long; its effect does not.
    assert len({run["key"] for run in place.traces.runs()}) == 1
    assert place.traces.effects == (1 if app == "tool" else 0)
    assert await replay_all(place.client) == 1


async def test_many_quick_kills_of_the_server_lose_and_double_nothing(
    mortal: Restartable, place: Workplace, controls: dict[str, Control]
) -> None:
    """F6, I1: local commits whose workflow task the server forgot are found by their event ids."""
    names = [f"{n}" for n in range(6)]

    async def run(name: str) -> list[Event]:
        return [event async for event in place.run("charge", invocation_id=name)]

    async with place.restarted_worker():
        runs = asyncio.gather(*(run(name) for name in names))  # one session: they queue up
        for _ in range(4):
            known = len(await place.log("charge"))
            await until(lambda: _has_more(place, known, runs))  # noqa: B023 - awaited here
            await mortal.restart()
        async with asyncio.timeout(PATIENCE):
            yielded = await runs
            await asyncio.gather(*(place.workflow("charge", name).result() for name in names))
    stored = await place.log("charge")
    assert all(len(events) == len(controls["charge"].yielded) for events in yielded)
    assert len({event.id for event in stored}) == len(stored)
    size = len(controls["charge"].stored)
    blocks = [stored[start : start + size] for start in range(0, len(stored), size)]
    assert [len({event.invocation_id for event in block}) for block in blocks] == [1] * len(names)
    assert place.traces.effects == len([r for r in stored if r.get_function_responses()])
    assert await replay_all(place.client) == len(names)


async def _has_more(place: Workplace, known: int, runs: "asyncio.Future[Any]") -> bool:
    return runs.done() or len(await place.log("charge")) > known


async def test_a_client_attached_before_the_kill_reads_on(
    mortal: Restartable, place: Workplace, controls: dict[str, Control]
) -> None:
    """I17: the feed is the store, so it does not break with the server."""
    async with place.restarted_worker():
        async with aclosing(place.run("tool")) as events:
            first = await anext(events)
            await mortal.restart()
            place.traces.open_gate()
            rest = [event async for event in events]
        await place.workflow("tool").result()
    assert [shape(e) for e in (first, *rest)] == [shape(e) for e in controls["tool"].yielded]
