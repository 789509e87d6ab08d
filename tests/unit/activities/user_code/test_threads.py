"""The pool of threads for sync user code."""

import asyncio
import threading
from collections.abc import Iterator
from concurrent.futures import Future
from typing import Any

import pytest

from durable_adk.activities.user_code import threads as user_threads
from durable_adk.activities.user_code.threads import UserCodeThreads
from tests.support.waiting import PATIENCE, until, until_true


@pytest.fixture
def let_go() -> Iterator[threading.Event]:
    """Lets all code continue that hangs."""
    event = threading.Event()
    yield event
    event.set()


def started(threads: UserCodeThreads, let_go: threading.Event) -> Future[Any]:
    """A call that hangs, and has begun."""
    begun = threading.Event()

    def hangs() -> str:
        begun.set()
        let_go.wait(PATIENCE)
        return "late"

    call = threads.submit(hangs)
    assert begun.wait(PATIENCE)
    return call


def test_calls_are_run_with_what_they_return_and_raise() -> None:
    """OPEN-7: as in any other pool."""
    threads = UserCodeThreads(lambda: 2)
    calls = [threads.submit(divmod, 7, number) for number in (2, 0)]
    assert calls[0].result(PATIENCE) == (3, 1)
    assert isinstance(calls[1].exception(PATIENCE), ZeroDivisionError)
    threads.shutdown()


def test_more_calls_than_threads_wait_for_their_turn(let_go: threading.Event) -> None:
    """I22: and one that is cancelled before is not run."""
    threads = UserCodeThreads(lambda: 1)
    first = started(threads, let_go)
    ran: list[int] = []
    second, third = threads.submit(ran.append, 2), threads.submit(ran.append, 3)
    assert second.cancel()
    assert threads._threads_alive == 1
    assert ran == []
    let_go.set()
    assert first.result(PATIENCE) == "late"
    third.result(PATIENCE)
    assert ran == [3]
    threads.shutdown()


def test_a_thread_that_outlives_its_call_is_replaced(let_go: threading.Event) -> None:
    """F11, I22: it takes no place; when it ends after all, it is counted no more."""
    threads = UserCodeThreads(lambda: 1)
    hung: list[Future[Any]] = []
    for number in range(5):
        call = started(threads, let_go)
        assert not call.cancel()
        hung.append(call)
        assert len(threads.outliving()) == number + 1
    assert threads.outliving(3600) == []
    assert threads.submit(lambda: "fine").result(PATIENCE) == "fine"
    let_go.set()
    until_true(lambda: threads.outliving() == [])
    assert [call.result(PATIENCE) for call in hung] == ["late"] * 5
    threads.shutdown()


async def test_who_awaits_a_call_and_is_cancelled_leaves_it(let_go: threading.Event) -> None:
    """F11: as `asyncio` tells the pool, whatever way the call was made."""
    threads, loop = UserCodeThreads(lambda: 1), asyncio.get_running_loop()
    begun = threading.Event()

    def hangs() -> None:
        begun.set()
        let_go.wait(PATIENCE)

    call = loop.run_in_executor(threads, hangs)
    await until(begun.is_set)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    await until(threads.outliving)
    assert len(threads.outliving()) == 1
    threads.shutdown()


def test_a_call_that_has_ended_is_left_by_nobody() -> None:
    """F11: only what runs can outlive."""
    threads = UserCodeThreads(lambda: 1)
    call = threads.submit(lambda: 1)
    call.result(PATIENCE)
    assert not call.cancel()
    assert threads.outliving() == []
    threads.shutdown()


def test_threads_end_when_there_is_nothing_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    """I24: those of a burst are not kept; one that has work is."""
    monkeypatch.setattr(user_threads, "IDLE", 0.2)
    threads = UserCodeThreads(lambda: 20)
    all_run = threading.Barrier(20)
    for call in [threads.submit(all_run.wait, PATIENCE) for _ in range(20)]:
        call.result(PATIENCE)
    until_true(lambda: threads._threads_alive == 0)
    assert threads.submit(lambda: "again").result(PATIENCE) == "again"
    threads.shutdown()


def test_a_closed_pool_takes_no_calls(let_go: threading.Event) -> None:
    """I24: it waits for none that hangs, and runs what it has taken."""
    threads = UserCodeThreads(lambda: 1)
    hung, waits = started(threads, let_go), threads.submit(lambda: "taken before")
    dropped = threads.submit(lambda: "dropped")
    dropped.cancel()
    threads.shutdown(wait=True)
    with pytest.raises(RuntimeError, match="closed"):
        threads.submit(lambda: 1)
    let_go.set()
    assert (hung.result(PATIENCE), waits.result(PATIENCE)) == ("late", "taken before")
