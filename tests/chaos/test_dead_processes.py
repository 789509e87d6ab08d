"""A worker's process dies, and another one of its machine fails its attempts at once (D19)."""

import asyncio
import signal

from temporalio.api.workflow.v1 import PendingActivityInfo

from durable_adk.client.queries import read_attempts
from durable_adk.sessions.call_attempt import AttemptEnd
from durable_adk.storage.files import private_folder
from tests.chaos.conftest import MakePlace
from tests.support.processes import INVOCATION, Workplace
from tests.support.waiting import PATIENCE, until

NEVER = 100 * PATIENCE
"""A heartbeat timeout that no test lives to see."""


async def pending(place: Workplace, app: str) -> PendingActivityInfo:
    """The activity that an invocation waits for."""
    description = await place.workflow(app).describe()
    [found] = description.raw_description.pending_activities
    return found


def noted(pid: int) -> bool:
    """Whether files name attempts of a process."""
    return any(
        f"{pid}@".encode() in file.read_bytes()
        for file in private_folder().glob("attempts-*/*/*")
        if file.exists()
    )


async def test_a_dead_processs_tool_runs_again_before_its_heartbeat_is_missed(
    place: Workplace,
) -> None:
    """D19, F2: no heartbeat was missed, and the attempt still counts as lost with its worker."""
    place.heartbeat = NEVER
    async with await place.start_worker() as one:
        run = asyncio.create_task(place.all_of("tool"))
        await until(place.traces.runs)
        async with await place.start_worker() as two:
            await one.kill()
            await until(lambda: len(place.traces.runs()) == 2)
            found = await pending(place, "tool")
            assert found.attempt == 2
            assert found.last_failure.WhichOneof("failure_info") == "application_failure_info"
            pids = [one.pid, two.pid]
            place.traces.open_gate()
            await asyncio.wait_for(run, PATIENCE)
    assert [run["pid"] for run in place.traces.runs()] == pids
    assert place.traces.effects == 1
    [lost] = await read_attempts(place.sessions, place.key("tool"), INVOCATION)
    assert (lost.attempt, lost.ended) == (1, AttemptEnd.LOST)
    assert (lost.worker or "").startswith(f"{pids[0]}@")


async def test_a_worker_that_starts_later_fails_the_attempts_of_the_dead(place: Workplace) -> None:
    """D19, F2: the only worker of a machine is restarted, as by a supervisor."""
    place.heartbeat = NEVER
    async with await place.start_worker() as one:
        run = asyncio.create_task(place.all_of("model"))
        await until(place.traces.runs)
        await one.kill()
    place.traces.open_gate()
    async with await place.start_worker():
        await asyncio.wait_for(run, PATIENCE)
    assert len(place.traces.runs()) == 2


async def test_no_attempt_is_failed_but_the_dead_processs_own(place: Workplace) -> None:
    """D19, F8: its step has long been another worker's, whose attempt continues."""
    async with await place.start_worker() as one:
        run = asyncio.create_task(place.all_of("tool"))
        await until(place.traces.runs)
        async with await place.start_worker() as two:
            one.signal(signal.SIGSTOP)
            await until(lambda: len(place.traces.runs()) == 2)
            assert noted(one.pid)
            before = await pending(place, "tool")
            dead, alive = one.pid, two.pid
            await one.kill()
            await until(lambda: not noted(dead))
            found = await pending(place, "tool")
            assert found.last_worker_identity.startswith(f"{alive}@")
            # More than 2: those that the frozen one's polls have received do not begin anywhere.
            assert found.attempt == before.attempt
            place.traces.open_gate()
            await asyncio.wait_for(run, PATIENCE)
    assert len(place.traces.runs()) == 2


async def test_a_frozen_process_is_not_dead(make_place: MakePlace) -> None:
    """D19, F8: other workers cannot get its lock, so its attempt is left to it."""
    place, other = make_place(), make_place()
    place.heartbeat = other.heartbeat = NEVER
    async with await place.start_worker() as frozen, await other.start_worker() as dead:
        runs = [asyncio.create_task(one.all_of("tool")) for one in (place, other)]
        await until(lambda: place.traces.runs() and other.traces.runs())
        frozen.signal(signal.SIGSTOP)
        async with await other.start_worker():
            pid = dead.pid
            await dead.kill()
            await until(lambda: len(other.traces.runs()) == 2)  # so it has looked at the frozen too
            await until(lambda: not noted(pid))
            assert noted(frozen.pid)
            assert (await pending(place, "tool")).attempt == 1
            frozen.signal(signal.SIGCONT)
            for one in (place, other):
                one.traces.open_gate()
            await asyncio.wait_for(asyncio.gather(*runs), PATIENCE)
    assert len(place.traces.runs()) == 1
