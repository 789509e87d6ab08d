"""A session in a task of its own."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from contextvars import ContextVar
from typing import Any

import pytest

from durable_adk.tools.mcp_tool._connection import (
    Connection,
    McpConnectionError,
    McpConnectionLostError,
)

TRACE: ContextVar[str] = ContextVar("TRACE", default="none")


class FakeSession:
    """Remembers the task and the context that entered and left it."""

    def __init__(self, *, hang: bool = False, error: BaseException | None = None) -> None:
        self.hang = hang
        self.error = error
        self.tasks: list[Any] = []
        self.trace = ""
        self.die = asyncio.Event()

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[Any]:
        self.tasks.append(asyncio.current_task())
        self.trace = TRACE.get()
        try:
            if self.error:
                raise self.error
            if self.hang:
                await asyncio.sleep(3600)
            async with asyncio.TaskGroup() as group:
                death = group.create_task(self._death())
                yield self
                death.cancel()
        finally:
            self.tasks.append(asyncio.current_task())

    async def _death(self) -> None:
        await self.die.wait()
        raise OSError("the transport broke")


def connect(session: FakeSession, timeout: float = 5.0) -> Connection:
    """A connection of that session."""
    return Connection(session.opened(), timeout=timeout)


def answer(delay: float = 0.0) -> Callable[[Any], Awaitable[str]]:
    """Something to do in a session."""

    async def function(session: Any) -> str:
        await asyncio.sleep(delay)
        return "done"

    return function


async def test_a_session_is_left_by_the_task_that_entered_it() -> None:
    """Cancel scopes are left where they were entered, whoever calls and closes."""
    session = FakeSession()
    connection = connect(session)
    assert await asyncio.create_task(connection.call(answer())) == "done"
    await connection.stop()
    entered, left = session.tasks
    assert entered is left
    assert entered is not asyncio.current_task()


async def test_a_session_belongs_to_no_callers_trace() -> None:
    """Context variables of the call that happens to open it stay with that call."""
    token = TRACE.set("first call")
    session = FakeSession()
    connection = connect(session)
    await connection.call(answer())
    TRACE.reset(token)
    await connection.stop()
    assert session.trace == "none"


async def test_a_cancelled_caller_takes_nobody_along() -> None:
    """The caller that opened the session may go; the others' calls go on."""
    connection = connect(FakeSession())
    first = asyncio.create_task(connection.call(answer(3600)))
    second = asyncio.create_task(connection.call(answer(0.05)))
    await asyncio.sleep(0.01)
    first.cancel()
    assert await second == "done"
    with pytest.raises(asyncio.CancelledError):
        await first
    assert connection.calls == 0
    await connection.stop()


async def test_a_call_ends_with_its_session() -> None:
    """A transport that breaks without answering leaves no call waiting."""
    session = FakeSession()
    connection = connect(session)
    call = asyncio.create_task(connection.call(answer(3600)))
    await asyncio.sleep(0.01)
    session.die.set()
    with pytest.raises(McpConnectionLostError):
        async with asyncio.timeout(1):
            await call


@pytest.mark.parametrize(
    ("session", "said"),
    [
        (FakeSession(hang=True), "no answer in 0.05 s"),
        (FakeSession(error=OSError("refused")), "refused"),
        (FakeSession(error=ExceptionGroup("g", [ExceptionGroup("h", [OSError("deep")])])), "deep"),
        (FakeSession(error=asyncio.CancelledError()), "CancelledError"),
    ],
)
async def test_a_session_that_does_not_open_says_why(session: FakeSession, said: str) -> None:
    """Every caller learns the first cause, and none waits longer than the time to connect."""
    connection = connect(session, timeout=0.05)
    calls = [asyncio.create_task(connection.call(answer())) for _ in range(2)]
    for call in calls:
        with pytest.raises(McpConnectionError, match=said) as raised:
            await call
        assert not isinstance(raised.value, McpConnectionLostError)
    await connection.stop()


async def test_stopping_frees_those_who_wait_for_the_opening() -> None:
    """Closing does not wait for a server that never answers."""
    connection = connect(FakeSession(hang=True))
    call = asyncio.create_task(connection.call(answer()))
    await asyncio.sleep(0.01)
    await connection.stop()
    with pytest.raises(McpConnectionError, match="closed"):
        await call
