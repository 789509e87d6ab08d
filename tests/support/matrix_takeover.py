"""Invocations whose worker dies while another one is idle, and how long they stall."""

import asyncio
import signal
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace

from durable_adk.events import Event
from durable_adk.settings import Limits
from harness.forked_worker import ForkedWorker
from tests.support.chaos_apps import NAP
from tests.support.matrix_cases import Scene
from tests.support.matrix_runs import Place, approval
from tests.support.processes import SESSION
from tests.support.waiting import until
from tests.support.worker_pool import WorkerPool

Times = dict[str, float]
"""Seconds by what they are the time of."""


@dataclass
class Stage:
    """One sample: a workplace and the workers that are there for it."""

    pool: WorkerPool
    place: Place
    stack: AsyncExitStack
    app: str = ""
    """The app that was run."""

    async def worker(self, app: str, *, failpoint: str = "", grace: int = 10) -> ForkedWorker:
        """One more worker, which is ready."""
        order = self.place.order(Scene(app), failpoint, grace=grace)
        order = replace(order, heartbeat=Limits().heartbeat_timeout)
        [worker] = await self.stack.enter_async_context(self.pool.serving(order, 1))
        return worker

    def run(self, app: str) -> "Run":
        """An invocation that continues beside what follows."""
        self.app = app
        return Run(self.place, app)


class Run:
    """An invocation, and when its events came."""

    def __init__(self, place: Place, app: str) -> None:
        self.events: list[Event] = []
        self.times: list[float] = []
        self._task = asyncio.create_task(self._follow(place.run(app)))

    async def _follow(self, events: AsyncGenerator[Event]) -> None:
        async for event in events:
            self.times.append(time.time())
            self.events.append(event)

    async def count(self, number: int) -> float:
        """When the n-th event came, seconds since the epoch."""
        await until(lambda: len(self.times) >= number or self._task.done())
        return self.times[number - 1]

    async def end(self) -> float:
        """When the last one came."""
        await self._task
        return self.times[-1]


async def idle_in_a_timer(stage: Stage) -> Times:
    """A custom agent sleeps; its timer fires after the kill."""
    first = await stage.worker("nap")
    run = stage.run("nap")
    await run.count(1)
    await stage.worker("nap")
    first.signal(signal.SIGKILL)
    return {"idle, a timer": await run.end() - run.events[0].timestamp - NAP}


async def waiting_for_an_answer(stage: Stage) -> Times:
    """An approval is given at once after the kill."""
    first = await stage.worker("approval")
    await stage.run("approval").end()
    await stage.worker("approval")
    first.signal(signal.SIGKILL)
    await first.end()
    asked = time.time()
    async with stage.place.runner("approval") as runner:
        user = {"user_id": stage.place.queue, "session_id": SESSION}
        [pending] = await runner.pending(**user)
        answer = approval(pending.call_id, pending.name)
        events = runner.run_async(**user, new_message=answer)
        times = [time.time() async for _ in events]
    return {"idle, waits for an answer": times[0] - asked}


async def _in_a_call(stage: Stage, app: str, what: str) -> Times:
    traces = stage.place.traces
    first = await stage.worker(app)
    run = stage.run(app)
    await until(traces.runs)
    await stage.worker(app)
    first.signal(signal.SIGKILL)
    died = time.time()
    await until(lambda: len(traces.runs()) == 2)
    again = traces.runs()[1]["at"] - died
    traces.open_gate()
    opened = time.time()
    return {f"{what}, runs again": again, f"{what}, then to the end": await run.end() - opened}


async def in_a_model_call(stage: Stage) -> Times:
    """The model thinks."""
    return await _in_a_call(stage, "model", "model call")


async def in_a_tool_call(stage: Stage) -> Times:
    """The tool waits; its worker has the workflow in its cache as well, so two waits follow."""
    return await _in_a_call(stage, "tool", "tool call")


async def _at(stage: Stage, app: str, failpoint: str, number: int) -> float:
    workers = [await stage.worker(app, failpoint=failpoint) for _ in range(2)]
    run = stage.run(app)
    ends = [asyncio.create_task(worker.end()) for worker in workers]
    await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
    died = time.time()
    for end in ends:
        end.cancel()
    late = await run.count(number) - died
    await run.end()
    return late


async def in_the_opening(stage: Stage) -> Times:
    """A local activity, with the first workflow task."""
    return {"local activity, opening": await _at(stage, "charge", "open.after:kill@1", 1)}


async def in_a_commit_of_the_loop(stage: Stage) -> Times:
    """A local activity in the middle."""
    return {"local activity, commit": await _at(stage, "count", "commit.after:kill@1", 2)}


async def in_an_opening_that_waits(stage: Stage) -> Times:
    """The store has not answered the local activity, and a normal one continues."""
    failpoint = "open.before:raise@1;open.after:kill@1"
    return {"store activity, opening": await _at(stage, "charge", failpoint, 1)}


async def after_a_commit(stage: Stage) -> Times:
    """The step has committed, and its worker dies before or after it has said so."""
    first = await stage.worker("charge")
    run = stage.run("charge")
    await stage.worker("charge")
    await run.count(2)
    first.signal(signal.SIGKILL)
    died = time.time()
    return {"just after a commit": max(0.0, await run.end() - died)}


async def told_to_end_while_idle(stage: Stage) -> Times:
    """SIGTERM, and no step is running."""
    first = await stage.worker("nap")
    run = stage.run("nap")
    await run.count(1)
    await stage.worker("nap")
    first.signal(signal.SIGTERM)
    return {"SIGTERM, idle": await run.end() - run.events[0].timestamp - NAP}


async def told_to_end_in_a_tool(stage: Stage) -> Times:
    """SIGTERM; the tool outlives the second of grace, and runs again elsewhere."""
    traces = stage.place.traces
    first = await stage.worker("tool", grace=1)
    run = stage.run("tool")
    await until(traces.runs)
    await stage.worker("tool")
    first.signal(signal.SIGTERM)
    told = time.time()
    await until(lambda: len(traces.runs()) == 2)
    again = traces.runs()[1]["at"] - told - 1
    traces.open_gate()
    opened = time.time()
    return {
        "SIGTERM, tool runs again": again,
        "SIGTERM, then to the end": await run.end() - opened,
    }


Situation = Callable[[Stage], Awaitable[Times]]
SITUATIONS: list[Situation] = [
    idle_in_a_timer,
    waiting_for_an_answer,
    in_a_model_call,
    in_a_tool_call,
    in_the_opening,
    in_a_commit_of_the_loop,
    in_an_opening_that_waits,
    after_a_commit,
    told_to_end_while_idle,
    told_to_end_in_a_tool,
]
IDLE, CALL, SLACK = 1.2, 1.0, 0.5
"""Seconds; the slack is for what a turn takes anyway."""


def bound(what: str, task_timeout: float) -> float:
    """Seconds that docs/know/durability.md promises for one of the times."""
    if what.startswith(("local", "just")):
        return task_timeout + SLACK
    if what.startswith("store"):
        return CALL + IDLE
    if what.startswith(("model call, runs", "tool call, runs")):
        return CALL
    return SLACK if what.startswith("SIGTERM") else IDLE
