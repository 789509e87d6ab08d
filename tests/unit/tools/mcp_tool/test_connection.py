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
from tests.support.waiting import PATIENCE, forever, until

TRACE: ContextVar[str] = ContextVar("TRACE", default="none")


class FakeSession:
    """Remembers the task and the context that entered and left it."""

    def __init__(self, *, hang: bool = False, error: BaseException | None = None) -> None:
        self.hang = hang
        self.error = error
        self.tasks: list[Any] = []
        self.trace = ""
        self.die = asyncio.Event()
        self.begun = 0
        """Calls that use it by now."""

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[Any]:
        self.tasks.append(asyncio.current_task())
        self.trace = TRACE.get()
        try:
            if self.error:
                raise self.error
            if self.hang:
                await forever()
            async with asyncio.TaskGroup() as group:
                death = group.create_task(self._death())
                yield self
                death.cancel()
        finally:
            self.tasks.append(asyncio.current_task())

    async def _death(self) -> None:
        await self.die.wait()
        raise OSError("the transport broke")


def connect(session: FakeSession, timeout: float = PATIENCE) -> Connection:
    """A connection of that session."""
    return Connection(session.opened(), timeout=timeout)


def answer(go_on: asyncio.Event | None = None) -> Callable[[Any], Awaitable[str]]:
    """Something to do in a session, perhaps when it may."""

    async def function(session: Any) -> str:
        session.begun += 1
        if go_on:
            await go_on.wait()
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
    """The caller that opened the session may go; the others' calls continue."""
    session, go_on = FakeSession(), asyncio.Event()
    connection = connect(session)
    first = asyncio.create_task(connection.call(answer(asyncio.Event())))
    second = asyncio.create_task(connection.call(answer(go_on)))
    await until(lambda: session.begun == 2)
    first.cancel()
    await asyncio.wait([first])
    go_on.set()
    assert await second == "done"
    with pytest.raises(asyncio.CancelledError):
        await first
    assert connection.calls == 0
    await connection.stop()


async def test_a_call_ends_with_its_session() -> None:
    """A transport that breaks without answering leaves no call waiting."""
    session = FakeSession()
    connection = connect(session)
    call = asyncio.create_task(connection.call(answer(asyncio.Event())))
    await until(lambda: session.begun)
    session.die.set()
    with pytest.raises(McpConnectionLostError):
        async with asyncio.timeout(PATIENCE):
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
    connection = connect(session, timeout=0.05 if session.hang else PATIENCE)
    calls = [asyncio.create_task(connection.call(answer())) for _ in range(2)]
    for call in calls:
        with pytest.raises(McpConnectionError, match=said) as raised:
            await call
        assert not isinstance(raised.value, McpConnectionLostError)
    await connection.stop()


async def test_stopping_frees_those_who_wait_for_the_opening() -> None:
    """Closing does not wait for a server that never answers."""
    session = FakeSession(hang=True)
    connection = connect(session)
    call = asyncio.create_task(connection.call(answer()))
    await until(lambda: session.tasks)
    await connection.stop()
    with pytest.raises(McpConnectionError, match="closed"):
        await call
