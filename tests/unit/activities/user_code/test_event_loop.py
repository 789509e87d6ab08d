"""How user code is kept apart, and what it does to its own kind."""

import asyncio
import importlib
import selectors
import socket
import sys
import threading
from collections.abc import Callable, Coroutine
from contextlib import suppress
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest

from durable_adk.activities.user_code import event_loop, watchdog
from durable_adk.activities.user_code.event_loop import UserCodeLoop
from durable_adk.activities.user_code.threads import UserCodeThreads
from durable_adk.activities.user_code.watchdog import Watchdog
from durable_adk.calling import contained
from durable_adk.calling.code_scope import CodeScope
from durable_adk.errors import RunError, WorkerStuckError
from durable_adk.settings import Limits
from tests.support.gates import until_set
from tests.support.waiting import PATIENCE, forever, until


async def test_a_cancelled_wait_takes_the_result_of_work_that_finishes() -> None:
    """CAN-1: what was being committed is known to whoever cancelled it."""
    loop = UserCodeLoop()
    started = asyncio.Event()
    here = asyncio.get_running_loop()

    async def commits() -> str:
        here.call_soon_threadsafe(started.set)
        try:
            await forever()
        except asyncio.CancelledError:
            return "committed"

    wait = asyncio.create_task(loop.run(commits()))
    await started.wait()
    wait.cancel()
    assert await asyncio.wait_for(wait, PATIENCE) == "committed"
    await loop.close()


async def test_a_cancellation_reaches_work_that_has_not_begun() -> None:
    """CAN-3: also while other user code blocks the loop that the work waits for."""
    blocked = Blocked()
    ran: list[int] = []

    async def late() -> None:
        await asyncio.sleep(0)
        ran.append(1)

    (blocking,) = await blocked.begin()
    wait = asyncio.create_task(blocked.loop.run(late()))
    await asyncio.sleep(0)
    wait.cancel()
    await asyncio.sleep(0)
    blocked.let_go.set()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(wait, PATIENCE)
    await blocking
    assert ran == []
    await blocked.end()


class Told(list[dict[str, Any]]):
    """What is logged as a warning."""

    def __init__(self) -> None:
        super().__init__()
        self.anything = threading.Event()

    def warning(self, event: str, **fields: Any) -> None:
        """Take a line of the watchdog's."""
        self.append({"event": event, **fields})
        self.anything.set()


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> Told:
    """What the watchdog logs."""
    told = Told()
    monkeypatch.setattr(watchdog.logger, "warning", told.warning)
    return told


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> list[Watchdog]:
    """Who has looked, once for each look that has ended."""
    looks: list[Watchdog] = []
    look = Watchdog._look_at_threads

    def counted(dog: Watchdog) -> None:
        look(dog)
        looks.append(dog)

    monkeypatch.setattr(Watchdog, "_look_at_threads", counted)
    return looks


async def looked(looks: list[Watchdog], times: int) -> None:
    """Wait for looks that have begun after now."""
    seen = len(looks) + 1 + times  # one may be under way
    await until(lambda: len(looks) >= seen)


@pytest.mark.thorough
async def test_code_that_blocks_is_named(told: Told) -> None:
    """I22, F41: once, with the line; the work of others waits for it and is not lost."""
    loop = UserCodeLoop()

    async def blocks() -> None:
        told.anything.wait(PATIENCE)

    async def waits() -> str:
        return "done"

    blocking = asyncio.create_task(loop.run(blocks()))
    await asyncio.sleep(0)
    assert await loop.run(waits()) == "done"
    await blocking
    await loop.close()
    assert [line["event"] for line in told] == ["user_loop.blocked"]
    line = blocks.__code__.co_firstlineno + 1
    assert told[0]["at"] == f"{__file__}:{line} in blocks"


@pytest.mark.thorough
async def test_an_import_is_not_taken_for_a_sync_call(told: Told, tmp_path, monkeypatch) -> None:
    """A library that imports another one at the first call: the remedy is to import it before."""
    loop = UserCodeLoop()
    (tmp_path / "slow_library.py").write_text("import sys\nsys.blocker.wait()\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(
        sys, "blocker", SimpleNamespace(wait=partial(told.anything.wait, PATIENCE)), raising=False
    )

    async def asks() -> None:
        importlib.import_module("slow_library")

    await loop.run(asks())
    await loop.close()
    sys.modules.pop("slow_library")
    (line,) = told
    assert "imports a module" in line["hint"]
    assert "sync function" not in line["hint"]


@pytest.mark.thorough
async def test_a_loop_that_waits_is_not_blocked(told: Told, looks: list[Watchdog]) -> None:
    """Code that waits as it should is not reported."""
    loop = UserCodeLoop()
    waiting = asyncio.create_task(loop.run(forever()))
    await looked(looks, times=2)
    waiting.cancel()
    await asyncio.wait([waiting])
    await loop.close()
    assert told == []


@pytest.mark.thorough
async def test_code_with_a_selector_of_its_own_is_named(told: Told) -> None:
    """F41: `subprocess` has one, as the event loop has that has nothing to do."""
    loop = UserCodeLoop()
    here, there = socket.socketpair()

    async def blocks() -> None:
        with selectors.DefaultSelector() as selector:
            selector.register(there, selectors.EVENT_READ)
            selector.select(PATIENCE)

    blocking = asyncio.create_task(loop.run(blocks()))
    await asyncio.to_thread(told.anything.wait, PATIENCE)
    here.send(b"x")
    await blocking
    await loop.close()
    here.close()
    there.close()
    assert [line["event"] for line in told] == ["user_loop.blocked"]
    assert told[0]["at"].startswith(f"{__file__}:")


class Blocked:
    """A loop whose user code blocks it until it is let go."""

    def __init__(self, blocked_timeout: float = 10 * PATIENCE) -> None:
        self.loop = UserCodeLoop(Limits(blocked_timeout=blocked_timeout))
        self.let_go = threading.Event()
        self._begun = asyncio.Event()
        self._here = asyncio.get_running_loop()

    async def blocks(self) -> str:
        """What user code must not do."""
        self._here.call_soon_threadsafe(self._begun.set)
        self.let_go.wait(PATIENCE)
        await asyncio.sleep(0)
        return "too late"

    async def begin(self, *others: Coroutine[Any, Any, str]) -> list[asyncio.Task[str]]:
        """Run other work, and after it what blocks; their waits, its own last."""
        waits = [asyncio.create_task(self.loop.run(other)) for other in others]
        await asyncio.sleep(0)
        await self.loop.run(asyncio.sleep(0))  # once it has had its turn, so have they
        waits.append(asyncio.create_task(self.loop.run(self.blocks())))
        await self._begun.wait()
        return waits

    async def end(self) -> None:
        """Let it continue, and come to its end."""
        self.let_go.set()
        await self.loop.close()


async def waits() -> str:
    """Work that waits as it should."""
    await forever()


@pytest.mark.thorough
async def test_a_blocked_loop_gives_its_steps_back() -> None:
    """F41, I22: after its time, with the code's line; only the step that blocks is suspected."""
    blocked = Blocked(blocked_timeout=4.0)
    innocent, guilty = await blocked.begin(waits())
    stuck = await asyncio.wait_for(blocked.loop.stuck(), PATIENCE)
    assert f"blocked the event loop for 4 s (blocked_timeout) at {__file__}:" in stuck.message
    assert " in blocks." in stuck.message
    with pytest.raises(WorkerStuckError) as given_back:
        await innocent
    assert not given_back.value.suspected
    with pytest.raises(WorkerStuckError) as given_back:
        await guilty
    assert given_back.value.suspected
    with pytest.raises(WorkerStuckError):
        await blocked.loop.run(waits())
    await blocked.end()


@pytest.mark.thorough
async def test_steps_of_a_blocked_loop_end_when_it_goes_on() -> None:
    """I22: what was returned is not done a second time here."""
    blocked = Blocked(blocked_timeout=2.0)
    ended: list[str] = []

    async def goes_on() -> str:
        try:
            await forever()
        except asyncio.CancelledError:
            ended.append("cancelled")
            raise

    tasks = await blocked.begin(goes_on())
    await asyncio.wait_for(blocked.loop.stuck(), PATIENCE)
    await asyncio.wait(tasks)
    blocked.let_go.set()
    await until(lambda: ended)
    await blocked.end()
    assert [type(task.exception()) for task in tasks] == [WorkerStuckError] * 2


@pytest.mark.thorough
async def test_a_loop_that_is_blocked_for_a_while_takes_no_steps() -> None:
    """I22: those that have not begun go to other workers; those that have wait, and end well."""
    blocked = Blocked()
    (begun,) = await blocked.begin()
    late = asyncio.create_task(blocked.loop.run(waits()))
    with pytest.raises(WorkerStuckError):
        await asyncio.wait_for(late, PATIENCE)
    with pytest.raises(WorkerStuckError):
        await asyncio.wait_for(blocked.loop.run(waits()), PATIENCE)
    blocked.let_go.set()
    assert await begun == "too late"
    await until(lambda: not _is_blocked(blocked.loop))
    assert await blocked.loop.run(asyncio.sleep(0, "taken")) == "taken"
    await blocked.end()


def _is_blocked(loop: UserCodeLoop) -> bool:
    return loop._watch is not None and loop._watch.is_blocked


@pytest.mark.thorough
async def test_threads_that_outlive_their_steps_are_replaced_and_named(
    told: Told, looks: list[Watchdog]
) -> None:
    """F11, I22: up to a bound; with one more the loop is stuck, and its steps still end well."""
    loop, let_go = UserCodeLoop(Limits(max_stuck_threads=70)), threading.Event()

    async def hangs() -> None:
        own = asyncio.get_running_loop()
        async with asyncio.timeout(PATIENCE) as limit:

            def hang() -> None:
                own.call_soon_threadsafe(limit.reschedule, own.time())
                let_go.wait(PATIENCE)

            await asyncio.to_thread(hang)

    async def fine() -> str:
        async with asyncio.timeout(PATIENCE):
            return await asyncio.to_thread(lambda: "done")

    async def times_out(number: int) -> None:
        outcomes = await asyncio.gather(
            *(loop.run(hangs()) for _ in range(number)), return_exceptions=True
        )
        assert {type(outcome) for outcome in outcomes} == {TimeoutError}

    await times_out(70)
    assert await loop.run(fine()) == "done"
    stuck = asyncio.create_task(loop.stuck())
    await until(lambda: len(told) >= 70)
    await looked(looks, times=1)
    assert not stuck.done()
    assert {line["event"] for line in told} == {"user_thread.outlives_step"}
    assert len(told) == 70
    may_end = asyncio.Event()
    runs = asyncio.create_task(loop.run(until_set(may_end)))
    await times_out(1)
    error = await asyncio.wait_for(stuck, PATIENCE)
    assert not runs.done()
    may_end.set()
    assert "71 threads still run user code of steps that have ended" in error.message
    await runs
    let_go.set()
    await loop.close()


@pytest.mark.thorough
async def test_blocked_workflows_leave_no_worker_without_places(
    told: Told, looks: list[Watchdog]
) -> None:
    """F11, I22: their threads have a bound of their own, as each keeps a workflow task's place."""
    threads, let_go = UserCodeThreads(lambda: 9, max_outliving=1), threading.Event()
    loop = UserCodeLoop(workflow_threads=threads)
    loop.start()
    stuck = asyncio.create_task(loop.stuck())

    async def block(number: int) -> None:
        calls = [threads.submit(let_go.wait, PATIENCE) for _ in range(number)]
        await until(lambda: all(call.running() for call in calls))
        assert not any(call.cancel() for call in calls)

    await block(1)
    await until(lambda: told)
    await looked(looks, times=1)
    assert not stuck.done()
    await block(1)
    error = await asyncio.wait_for(stuck, PATIENCE)
    assert "2 custom agents block their workflows" in error.message
    assert "max_concurrent_workflow_tasks" in error.message
    let_go.set()
    threads.shutdown()
    await loop.close()


async def test_work_that_refuses_to_end_is_left_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    """F11, I15: who cancels a step does not wait for code that swallows its cancellation."""
    monkeypatch.setattr(event_loop, "OBEY", 0.5)
    loop, let_go = UserCodeLoop(), threading.Event()
    told = list[str]()

    async def refuses() -> None:
        told.append("begun")
        while not let_go.is_set():
            with suppress(asyncio.CancelledError):
                await until(let_go.is_set)
        told.append("ended")

    wait = asyncio.create_task(loop.run(refuses()))
    await until(lambda: told)
    wait.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(wait, PATIENCE)
    assert told == ["begun"]
    let_go.set()
    await until(lambda: len(told) > 1)
    await loop.close()


@pytest.mark.parametrize("where", ["stop", "timer", "reader"])
async def test_user_code_that_ends_the_loop_ends_nobody_s_work(where: str) -> None:
    """F12, I22: also when nobody waits for it any more."""
    loop = UserCodeLoop()
    fell = threading.Event()

    def falls() -> None:
        fell.set()
        raise SystemExit

    async def leaves() -> None:
        own = asyncio.get_running_loop()
        if where == "stop":
            own.stop()
            fell.set()
        elif where == "timer":
            own.call_later(0.01, falls)
        else:
            here, there = socket.socketpair()
            own.add_reader(here, lambda: (own.remove_reader(here), here.close(), falls()))
            there.close()

    running = asyncio.create_task(loop.run(waits()))
    await loop.run(leaves())
    await until(fell.is_set)
    assert await loop.run(asyncio.sleep(0, "fine")) == "fine"
    assert not running.done()
    running.cancel()
    await asyncio.wait([running])
    await loop.close()


@pytest.mark.thorough
@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")  # at its close
@pytest.mark.parametrize("what", ["event loop", "watchdog"])
async def test_a_part_that_ends_all_the_same_gives_the_steps_back(
    what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """I22, F41: at once; the worker is stuck, and takes no further ones."""
    loop = UserCodeLoop()

    async def breaks() -> None:
        own: Any = asyncio.get_running_loop()
        own._selector.unregister(own._ssock)
        monkeypatch.setattr(own, "_process_events", None)

    def fails(dog: Watchdog) -> None:
        raise RuntimeError(f"{dog} cannot look")

    running = asyncio.create_task(loop.run(waits()))
    await loop.run(asyncio.sleep(0))
    if what == "watchdog":
        monkeypatch.setattr(Watchdog, "_look_at_threads", fails)
    else:
        with suppress(WorkerStuckError):
            await loop.run(breaks())
    error = await asyncio.wait_for(loop.stuck(), PATIENCE)
    assert f"The {what} of user code ended with" in error.message
    with pytest.raises(WorkerStuckError):
        await running
    with pytest.raises(WorkerStuckError):
        await loop.run(waits())
    await loop.close()


async def _forever() -> None:
    await forever()


async def _awaits_task() -> None:
    await asyncio.create_task(_forever())


async def cancels_all() -> None:
    """Cancel whatever runs in the loop."""
    for task in asyncio.all_tasks():
        task.cancel()
    await asyncio.sleep(0)


async def _cancels_others() -> None:
    for task in asyncio.all_tasks() - {asyncio.current_task()}:
        task.cancel()
    await asyncio.sleep(0)


async def _cancels_from_thread() -> None:
    loop = asyncio.get_running_loop()
    done = asyncio.Event()

    def cancel() -> None:
        for task in asyncio.all_tasks(loop):
            task.cancel()
        done.set()

    # It is not of this step's context.
    threading.Thread(target=loop.call_soon_threadsafe, args=[cancel]).start()
    await done.wait()
    await asyncio.sleep(0)


@pytest.mark.parametrize("cancels", [cancels_all, _cancels_others, _cancels_from_thread])
async def test_code_that_cancels_all_tasks_fails_no_other_step(
    cancels: Callable[[], Coroutine[Any, Any, None]],
) -> None:
    """F12, I22: other steps continue, or are retried; only its own fails, if it is known."""
    loop = UserCodeLoop()
    begun = asyncio.Semaphore(0)
    here = asyncio.get_running_loop()
    going = threading.Event()

    async def step(code: Callable[[], Coroutine[Any, Any, Any]]) -> str:
        with CodeScope(RunError, outermost=True):
            here.call_soon_threadsafe(begun.release)
            await contained(code())
        return "done"

    async def goes_on() -> None:
        await until(going.is_set)

    async def awaits_library() -> None:
        await asyncio.gather(_awaits_task(), _forever())

    others = [asyncio.create_task(loop.run(step(one))) for one in (goes_on, awaits_library)]
    for _ in others:
        await begun.acquire()
    for _ in range(10):
        await loop.run(asyncio.sleep(0))  # they wait now
    outcome = (await asyncio.gather(loop.run(step(cancels)), return_exceptions=True))[0]
    going.set()
    unharmed, harmed = await asyncio.wait_for(
        asyncio.gather(*others, return_exceptions=True), PATIENCE
    )
    assert isinstance(harmed, WorkerStuckError)
    if cancels is _cancels_from_thread:  # whose it was is not known, so all count as suspected
        assert isinstance(outcome, WorkerStuckError)
        assert isinstance(unharmed, WorkerStuckError)
        assert harmed.suspected
    else:
        assert isinstance(outcome, (RuntimeError, RunError, asyncio.CancelledError))
        assert unharmed == "done"
        assert not harmed.suspected
    await loop.close()


@pytest.mark.parametrize("end", ["stop", "close"])
async def test_code_cannot_stop_the_loop(end: str) -> None:
    """I22: it gets the error where it tries."""
    loop = UserCodeLoop()

    async def step() -> None:
        with CodeScope(outermost=True):
            getattr(asyncio.get_running_loop(), end)()

    with pytest.raises(RuntimeError, match="event loop"):
        await loop.run(step())
    await loop.run(asyncio.sleep(0))
    await loop.close()


async def test_a_loop_that_user_code_can_end_is_named(
    told: Told, monkeypatch: pytest.MonkeyPatch
) -> None:
    """F12: as that of uvloop's policy."""
    monkeypatch.setattr(event_loop, "can_keep_running", lambda _loop: False)
    monkeypatch.setattr(event_loop.logger, "warning", told.warning)
    loop = UserCodeLoop()
    loop.start()
    assert [line["event"] for line in told] == ["user_loop.unprotected"]
    await loop.close()
