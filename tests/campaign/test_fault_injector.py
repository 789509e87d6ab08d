"""What is done to processes is done as it is said."""

import asyncio
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from campaign.links import Link
from campaign.run_folder import RunFolder
from campaign.scale import Size
from campaign.schedule import HURRY, Fault, Kind
from harness.journal import notes
from tests.support.required import module
from tests.support.waiting import PATIENCE, until

clusters = module("campaign.cluster")
nemeses = module("campaign.fault_injector")
Cluster = clusters.Cluster


@pytest.fixture(scope="module")
async def cluster(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Cluster]:
    """Real processes, of which one test after the other harms some."""
    folder = RunFolder(tmp_path_factory.mktemp("cluster"))
    async with (
        clusters.running(folder, "sqlite", 1, Size.USUAL) as cluster,
        clusters.with_workers(cluster),
    ):
        yield cluster


def state(pid: int) -> str:
    """Of a process, as the kernel has it: T is stopped."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0]


@pytest.mark.thorough
async def test_a_frozen_server_stands_still_and_goes_on(cluster: Cluster) -> None:
    """F22: it is stopped for as long as the fault lasts, and no longer."""
    assert cluster.temporal.server is not None
    pid = cluster.temporal.server.pid
    freezing = asyncio.create_task(done(cluster, Kind.FREEZE_SERVER, seconds=PATIENCE))
    await until(lambda: state(pid) == "T")
    freezing.cancel()
    await asyncio.gather(freezing, return_exceptions=True)
    await until(lambda: state(pid) != "T")
    assert (await done(cluster, Kind.FREEZE_SERVER, seconds=0.1))["seconds"] == 0.1
    await until(lambda: state(pid) != "T")


async def done(cluster: Cluster, kind: Kind, *, seconds: float) -> dict:
    """Do a fault; what was recorded of it."""
    await nemeses.FaultInjector(cluster)._do(0, Fault(0.0, kind, seconds, 0.0))
    return notes(cluster.folder.faults)[-1]


@pytest.mark.thorough
async def test_a_stopped_worker_ends_in_order_and_is_replaced(cluster: Cluster) -> None:
    """F43: with its exit code it says that it was not killed."""
    worker = cluster.workers[0]
    process = worker.process
    assert process is not None
    line = await done(cluster, Kind.STOP_WORKER, seconds=HURRY)
    assert (line["name"], line.get("killed")) == (worker.name, None)
    assert await asyncio.wait_for(process.wait(), PATIENCE) == 0
    await until(lambda: worker.alive and worker.process is not process)


async def test_a_worker_that_takes_too_long_to_end_is_killed(cluster: Cluster) -> None:
    """F43: half of those that are stopped have less time than they may need."""
    worker = cluster.workers[0]
    process = worker.process
    assert process is not None
    process.send_signal(signal.SIGSTOP)  # it hears of nothing
    assert (await done(cluster, Kind.STOP_WORKER, seconds=0.1))["killed"] is True
    assert await asyncio.wait_for(process.wait(), PATIENCE) == -signal.SIGKILL
    await until(lambda: worker.alive and worker.process is not process)


async def test_the_model_is_asked_through_a_proxy(cluster: Cluster) -> None:
    """F23: what workers read as the model's address is where it can be cut off."""
    (proxy,) = cluster.proxies(Link.WORKER_MODEL)
    assert cluster.model.read_text().endswith(f":{proxy.port}")
    assert proxy.port != proxy.target
