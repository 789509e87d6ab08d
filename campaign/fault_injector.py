"""Injects the faults of a schedule into the processes of a run."""

import asyncio
import signal
import sqlite3
import time
from collections.abc import Awaitable, Callable
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any

from temporalio.service import RPCError

from campaign.cluster import Cluster, Supervised, until
from campaign.links import Link, links_of
from campaign.operators import TERMINATING, delete, forge, reset, terminate
from campaign.proxy import FaultProxy
from campaign.schedule import HURRY, Fault
from campaign.workload import NAP, SLOW
from durable_adk.client import connect
from durable_adk.errors import TemporalUnavailableError
from durable_adk.sessions import SessionKey
from durable_adk.wire.messages import workflow_id
from harness.journal import latest, note

EVERY, COMMITS = 3, 6
"""Number of faults after which so many commits must have succeeded before the next fault: on a slow
machine the faults are as far apart, in what is done between them."""
PATIENCE = 900.0
"""Seconds that a fault waits for a target, and the next one for the commits: on a slow machine, few
tools can be usurped."""
BRIEF = 0.5
"""Seconds; longer than any write of a running worker."""
TAKEOVER = 120.0
"""Seconds that a usurped worker is frozen at most, until its session was taken over."""
ALONE = 20.0
"""Seconds that a usurped worker is without a network after it wakes, unless it has been refused."""
UNHEARD = 15.0
"""Seconds for which workers that are cut off may take to commit something."""
REPORTED = 0.1
"""Seconds in which a commit from before a black hole is reported to Temporal."""
_LOCKING = 5.0

Done = dict[str, Any] | None
"""What was done to which process; None if the fault had no target."""


@dataclass
class FaultInjector:
    """Injects the faults of a schedule; those that last overlap with the next ones."""

    cluster: Cluster
    _tasks: list[asyncio.Task[None]] = field(default_factory=list[asyncio.Task[None]])
    """All faults, awaited at the end, so that no failure is lost."""
    _server: asyncio.Lock = field(default_factory=asyncio.Lock)
    _store: asyncio.Lock = field(default_factory=asyncio.Lock)
    _network: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def inject(self, faults: list[Fault], seconds: float) -> None:
        """Inject each fault at its time; after `seconds` repair everything and return."""
        started, asked = time.monotonic(), time.time()
        for number, fault in enumerate(faults):
            await asyncio.sleep(max(0.0, started + fault.at - time.monotonic()))
            if number % EVERY == 0:
                started += await self._progress(asked)
                asked = time.time()
            self._tasks.append(asyncio.create_task(self._do(number, fault)))
        await asyncio.sleep(max(0.0, started + seconds - time.monotonic()))
        await asyncio.gather(*self._tasks)
        self.heal()

    async def _progress(self, since: float) -> float:
        """Wait until some events have been committed, so that a slow machine makes progress.

        Returns the seconds that this took; the faults that follow are delayed by as much.
        """
        began = time.monotonic()
        await until(lambda: self._committed(since) >= COMMITS, PATIENCE)
        return time.monotonic() - began

    def _committed(self, since: float) -> int:
        """How many of the latest commits have been acknowledged after a point in time."""
        lines = latest(self.cluster.folder.commits)
        return sum(line["at"] > since and line["phase"] == "ok" for line in lines)

    def heal(self) -> None:
        """Continue stopped workers and repair the network."""
        for link in links_of(self.cluster.store):
            for proxy in self.cluster.proxies(link):
                proxy.heal()
                proxy.bury()
        for worker in self.cluster.workers:
            _signal(worker, signal.SIGCONT)

    async def _do(self, number: int, fault: Fault) -> None:
        act: Callable[[Fault], Awaitable[Done]] = getattr(self, f"_{fault.kind.value}")
        end = time.monotonic() + PATIENCE
        while True:
            began = time.time()
            done, late = await act(fault), time.monotonic() > end
            in_vain = bool(done and done.get("in_vain"))
            if done is not None or late:
                note(
                    self.cluster.folder.faults,
                    number=number,
                    kind=fault.kind.value,
                    done=done is not None,
                    began=began,
                    **({"link": fault.link} if fault.link else {}),
                    **(done or {}),
                )
            if late or (done is not None and not in_vain):
                return
            await asyncio.sleep(0.1)

    async def _kill_worker(self, fault: Fault) -> Done:
        worker = _one_of(self.cluster.workers, fault.pick)
        return worker and _signal(worker, signal.SIGKILL)

    async def _kill_all_workers(self, _: Fault) -> Done:
        found = [_signal(worker, signal.SIGKILL) for worker in self.cluster.workers if worker.alive]
        return {"pids": [one["pid"] for one in found if one]} if found else None

    async def _stop_worker(self, fault: Fault) -> Done:
        worker = _one_of(self.cluster.workers, fault.pick)
        if worker is None:
            return None
        done, pid = _signal(worker, signal.SIGTERM), worker.pid
        if done is None or fault.seconds >= HURRY:
            return done
        await asyncio.sleep(fault.seconds)
        killed = _signal(worker, signal.SIGKILL) if worker.pid == pid else None
        return {**done, "killed": killed is not None, "seconds": fault.seconds}

    async def _kill_client(self, fault: Fault) -> Done:
        client = _one_of(self.cluster.clients, fault.pick)
        return client and _signal(client, signal.SIGKILL)

    async def _freeze_worker(self, fault: Fault) -> Done:
        worker = _one_of(self.cluster.workers, fault.pick)
        if worker is None:
            return None
        done = _signal(worker, signal.SIGSTOP)
        pid = worker.pid
        await asyncio.sleep(fault.seconds)
        if worker.pid == pid:
            _signal(worker, signal.SIGCONT)
        return done and {**done, "seconds": fault.seconds}

    async def _kill_server(self, fault: Fault) -> Done:
        async with self._server:
            await self.cluster.temporal.kill()
            await asyncio.sleep(fault.seconds)
            await self.cluster.temporal.start()
            return {"seconds": fault.seconds}

    async def _freeze_server(self, fault: Fault) -> Done:
        async with self._server:
            self.cluster.temporal.signal(signal.SIGSTOP)
            try:
                await asyncio.sleep(fault.seconds)
            finally:
                self.cluster.temporal.signal(signal.SIGCONT)
            return {"seconds": fault.seconds}

    async def _store_outage(self, fault: Fault) -> Done:
        async with self._store:
            if self.cluster.postgres is None:
                return await asyncio.to_thread(self._hold_lock, fault.seconds)
            await self.cluster.postgres.kill()
            await asyncio.sleep(fault.seconds)
            await self.cluster.postgres.start()
            return {"seconds": fault.seconds}

    def _hold_lock(self, seconds: float) -> Done:
        with closing(sqlite3.connect(self.cluster.sqlite, _LOCKING, isolation_level=None)) as store:
            try:
                store.execute("BEGIN EXCLUSIVE")
            except sqlite3.OperationalError:
                return None  # it was never free
            time.sleep(seconds)
            store.execute("ROLLBACK")
            return {"seconds": seconds}

    async def _cut(self, fault: Fault) -> Done:
        count = self._proxy(fault).cut()
        return {"connections": count} if count else None

    async def _freeze_connections(self, fault: Fault) -> Done:
        count = self._proxy(fault).freeze_generation()
        return {"connections": count} if count else None

    async def _blackhole(self, fault: Fault) -> Done:
        return await self._broken(fault, FaultProxy.black_hole)

    async def _drop_replies(self, fault: Fault) -> Done:
        return await self._broken(fault, FaultProxy.drop_replies)

    async def _broken(self, fault: Fault, how: Callable[[FaultProxy], None]) -> Done:
        async with self._network:
            proxy = self._proxy(fault)
            how(proxy)
            await asyncio.sleep(fault.seconds)
            proxy.heal()
            return {"seconds": fault.seconds, "port": proxy.target}

    async def _unheard(self, fault: Fault) -> Done:
        since = time.time()
        # Workers that have just started commit nothing behind a black hole, and would be killed.
        if not await until(lambda: self._committed(since) > 0, UNHEARD):
            return None
        proxies = self.cluster.proxies(Link.WORKER_TEMPORAL)
        async with self._network:
            for proxy in proxies:
                proxy.black_hole()
            since = time.time() + REPORTED
            unheard = await until(lambda: self._committed(since) > 0, UNHEARD)
            done = await self._kill_all_workers(fault)
            for proxy in proxies:
                proxy.cut()  # else what was on its way would arrive after all
                proxy.heal()
            return done if unheard else done and {**done, "in_vain": True}

    async def _usurp(self, fault: Fault) -> Done:
        for worker in self.cluster.workers:
            if worker.alive and (line := self._napping(worker)) is not None:
                return await self._usurped(worker, line, fault.seconds)
        return None

    def _napping(self, worker: Supervised) -> dict[str, Any] | None:
        """A long tool that this worker has just begun."""
        for line in reversed(latest(self.cluster.folder.ledger)):
            young = time.time() - line["at"] < NAP * 0.7
            what = (line["pid"], line["app"], line["phase"])
            if young and what == (worker.pid, SLOW, "begun"):
                return line
        return None

    async def _usurped(self, worker: Supervised, line: dict[str, Any], seconds: float) -> Done:
        """Freeze the worker, terminate its run, and wake it when the next message has the session.

        It wakes without a network: otherwise it could learn of its cancellation before it commits.
        """
        done = _signal(worker, signal.SIGSTOP)
        worker.spared = True
        try:
            if self.cluster.postgres is None and not await asyncio.to_thread(self._is_free):
                return None  # it has SQLite's lock, and nobody could take over
            key = SessionKey(SLOW, line["user"], line["session"])
            client = await connect(self.cluster.temporal.address)
            # Before it is done: whether it was done may not be known afterwards.
            note(
                self.cluster.folder.faults,
                kind=TERMINATING,
                began=time.time(),
                done=False,
                invocation=line["invocation"],
            )
            workflow = client.get_workflow_handle(workflow_id(key, line["invocation"]))
            await workflow.terminate(reason="usurped")
            await asyncio.sleep(seconds)
            await until(lambda: self._taken_over(line), TAKEOVER)
            await self._wake_alone(worker)
        except (TemporalUnavailableError, RPCError):
            return None  # it has ended, or the server is away: then this was a freeze of no time
        else:
            return done and {**done, "invocation": line["invocation"], "seconds": seconds}
        finally:
            worker.spared = False
            _signal(worker, signal.SIGCONT)

    async def _terminate(self, fault: Fault) -> Done:
        return await terminate(self.cluster, fault.pick)

    async def _delete(self, fault: Fault) -> Done:
        return await delete(self.cluster, fault.pick)

    async def _reset(self, fault: Fault) -> Done:
        return await reset(self.cluster, fault.pick)

    async def _forge(self, fault: Fault) -> Done:
        return await forge(self.cluster, fault.pick)

    def _is_free(self) -> bool:
        """Return whether SQLite's lock is free."""
        with closing(sqlite3.connect(self.cluster.sqlite, BRIEF, isolation_level=None)) as store:
            try:
                store.execute("BEGIN IMMEDIATE")
            except sqlite3.OperationalError:
                return False
            store.execute("ROLLBACK")
            return True

    def _taken_over(self, line: dict[str, Any]) -> bool:
        """Whether another invocation has been opened in the session of a tool since it began.

        That may take a while: the frozen worker may have been given its workflow task.
        """
        prefix = f"{line['session']}."
        return any(
            done["phase"] == "ok"
            and done["operation"] == "open"
            and done["invocation"].startswith(prefix)
            and done["at"] > line["at"]
            for done in latest(self.cluster.folder.commits)
        )

    async def _wake_alone(self, worker: Supervised) -> None:
        if worker.proxy is None:
            return
        async with self._network:
            worker.proxy.black_hole()
            since = time.time()
            _signal(worker, signal.SIGCONT)
            await until(lambda: self._refused(worker.pid, since), ALONE)
            worker.proxy.heal()

    def _refused(self, pid: int, since: float) -> bool:
        """Return whether the store has refused a commit of this process since then."""
        return any(
            (line["phase"], line["pid"], line.get("error")) == ("refused", pid, "LeaseLostError")
            and line["at"] > since
            for line in latest(self.cluster.folder.commits)
        )

    def _proxy(self, fault: Fault) -> FaultProxy:
        """Return a proxy on the link of a fault."""
        if fault.link is None:
            raise AssertionError(f"a fault of kind {fault.kind} is dealt a link")
        proxies = self.cluster.proxies(fault.link)
        return proxies[int(fault.pick * len(proxies))]


def _one_of(processes: list[Supervised], pick: float) -> Supervised | None:
    living = [one for one in processes if one.alive]
    return living[int(pick * len(living))] if living else None


def _signal(process: Supervised, number: signal.Signals) -> Done:
    """Send a signal to the process, unless it has ended."""
    if process.process is None or process.process.returncode is not None:
        return None
    if number is signal.SIGKILL:
        process.killed = process.pid
    process.process.send_signal(number)
    return {"pid": process.pid, "name": process.name}
