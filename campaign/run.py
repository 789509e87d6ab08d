"""One run: start a cluster, inject faults, let it settle, and collect the evidence."""

import asyncio
import json
import time
from dataclasses import dataclass
from pathlib import Path

from temporalio.client import Client

from campaign.after_faults import act_after_faults
from campaign.cluster import Cluster, running, with_clients
from campaign.controls import write_controls
from campaign.export import export
from campaign.fault_injector import FaultInjector
from campaign.links import links_of
from campaign.patience import Patience, until_idle
from campaign.restore import back_up, keep, restore
from campaign.run_folder import RunFolder
from campaign.scale import SCALES, Scale, Size
from campaign.schedule import GAP, Kind, schedule
from campaign.stores import converter
from campaign.worker_main import QUEUE
from durable_adk.client import connect

QUIET = 60.0
"""Seconds for which a run may stand still, once the faults are over."""


@dataclass(frozen=True)
class Plan:
    """What one run is."""

    seed: int
    store: str
    seconds: float
    gap: float = GAP
    quiet: float = QUIET
    """Seconds after the last fault for which it may stand still before all is answered (I11)."""
    size: Size = Size.USUAL
    restores: bool = False
    """Whether the store is put back to a copy in the end (I21)."""

    @property
    def scale(self) -> Scale:
        """How large it is."""
        return SCALES[self.size]

    @property
    def faults(self) -> list[Kind]:
        """The kinds of faults; without deletions if the run restores the store (I21)."""
        deletes = not self.restores
        return [kind for kind in self.scale.faults if deletes or kind is not Kind.DELETE]

    @property
    def encrypts(self) -> bool:
        """Whether what Temporal holds is encrypted: in every second run."""
        return self.seed % 2 == 0

    @property
    def command(self) -> str:
        """The command line that repeats the same faults."""
        return (
            f"python -m campaign --seed {self.seed} --store {self.store} "
            f"--seconds {self.seconds:g} --gap {self.gap:g} --quiet {self.quiet:g} "
            f"--size {self.size}{' --restore' if self.restores else ''}"
        )


async def run(plan: Plan, path: Path) -> RunFolder:
    """Do the run; return its folder, which has all evidence."""
    folder = _made(path)
    if plan.encrypts:
        folder.encrypted.touch()
    if plan.restores:
        folder.restores.touch()
    async with running(folder, plan.store, plan.seed, plan.size) as cluster:
        await write_controls(folder, plan.scale.turns)
        async with with_clients(cluster):
            if plan.restores:
                await keep(cluster, await _connected(cluster), 1)
            started = time.time()
            injector = FaultInjector(cluster)
            links = links_of(plan.store)
            faults = schedule(plan.seed, plan.seconds, plan.gap, plan.faults, links)
            async with asyncio.TaskGroup() as group:
                if plan.restores:
                    group.create_task(back_up(cluster, plan.seconds / 2))
                await injector.inject(faults, plan.seconds)
            healed = time.time()
            client = await _connected(cluster)
            patience = Patience(folder, plan.quiet)
            await _settle(cluster, client, patience)
            settled = time.time()
            await until_idle(folder, _living(cluster), plan.quiet)
            await act_after_faults(cluster, client, healed)
            if plan.restores:
                await keep(cluster, client, 2)
            await _ended(client, patience)  # clients know of an end before its workflow is over
            await until_idle(folder, _living(cluster), plan.quiet)
        ended = time.time()
        await export(cluster, client)
        if plan.restores:
            await restore(cluster, client)
    meta = {
        "seed": plan.seed,
        "store": plan.store,
        "seconds": plan.seconds,
        "quiet": plan.quiet,
        "size": plan.size,
        "restores": plan.restores,
        "command": plan.command,
        "queue": QUEUE,
        "started": started,
        "healed": healed,
        "settled": settled,
        "ended": ended,
    }
    folder.meta.write_text(json.dumps(meta))
    return folder


async def _connected(cluster: Cluster) -> Client:
    """Return a client that bypasses all proxies, with the run's data converter."""
    return await connect(cluster.temporal.address, data_converter=converter(cluster.folder))


def _living(cluster: Cluster) -> list[int]:
    return [worker.pid for worker in cluster.workers if worker.alive]


def _made(path: Path) -> RunFolder:
    path.mkdir(parents=True)
    path.chmod(0o755)  # PostgreSQL's own user has to get through
    return RunFolder(path)


async def _settle(cluster: Cluster, client: Client, patience: Patience) -> None:
    """Wait until all clients have their outcomes and all workflows have closed."""
    if cluster.scale.messages is None:
        cluster.folder.stop.touch()

    async def clients_ended() -> bool:
        return all(one.ended for one in cluster.clients)

    await patience.until(clients_ended)
    await _ended(client, patience)


async def _ended(client: Client, patience: Patience) -> None:
    """Wait until no workflow runs."""

    async def none_runs() -> bool:
        running = await client.count_workflows("ExecutionStatus = 'Running'")
        return not running.count

    await patience.until(none_runs)
