"""The pool of sessions."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from durable_adk.tools.mcp_tool import (
    MCPSessionManager,
    StreamableHTTPConnectionParams,
    mcp_session_manager,
)
from durable_adk.tools.mcp_tool._connection import McpConnectionError, McpConnectionLostError
from tests.support.waiting import PATIENCE, forever, until

PARAMS = StreamableHTTPConnectionParams(url="http://me:pw@127.0.0.1:1/mcp?k=v", headers={"a": "1"})


class Pool(MCPSessionManager):
    """Its sessions are numbers, counted by headers."""

    def __init__(self, *, stubborn: bool = False) -> None:
        self.changed: list[Any] = []
        super().__init__(PARAMS, on_tools_changed=self.changed.append)
        self.stubborn = stubborn
        self.opened: list[Any] = []
        self.closed: list[Any] = []

    @asynccontextmanager
    async def _session(self, key: Any) -> AsyncIterator[Any]:
        self.opened.append(dict(key))
        number = len(self.opened)
        yield number
        if self.stubborn:
            await forever()
        self.closed.append(number)


async def identity(session: Any) -> Any:
    """The session itself."""
    return session


async def test_a_session_is_shared_by_calls_with_the_same_headers() -> None:
    """One session for each set of headers, the parameters' own included."""
    pool = Pool()
    users = ["x", "y", "x", None, None]
    sessions = [await pool.call(identity, headers=user and {"user": user}) for user in users]
    assert sessions == [1, 2, 1, 3, 3]
    assert pool.opened == [{"a": "1", "user": "x"}, {"a": "1", "user": "y"}, {"a": "1"}]
    await pool.close()
    assert sorted(pool.closed) == [1, 2, 3]


async def test_a_lost_session_is_replaced_once() -> None:
    """A call is tried twice at most; the tools of a new session may be others."""
    pool = Pool()
    used: list[int] = []

    async def lost_until_second(session: Any) -> str:
        used.append(session)
        if len(used) < 2:
            raise ConnectionResetError
        return "done"

    async def lost(session: Any) -> None:
        used.append(session)
        raise ConnectionResetError

    assert await pool.call(lost_until_second) == "done"
    assert used == [1, 2]
    assert pool.changed == [(("a", "1"),)]
    with pytest.raises(McpConnectionLostError):
        await pool.call(lost)
    assert used == [1, 2, 2, 3]
    await pool.close()


async def test_an_error_of_the_call_is_not_the_sessions() -> None:
    """What the function raises is passed on, and the session kept."""
    pool = Pool()

    async def wrong(session: Any) -> None:
        raise ValueError("mine")

    with pytest.raises(ValueError, match="mine"):
        await pool.call(wrong)
    assert await pool.call(identity) == 1
    await pool.close()


async def test_a_session_that_does_not_answer_is_not_used_again() -> None:
    """A time limit ends the wait, names the server without its secrets, and drops the session."""
    pool = Pool()

    async def silent(session: Any) -> None:
        await forever()

    with pytest.raises(McpConnectionError) as raised:
        await pool.call(silent, timeout=0.05)
    assert str(raised.value) == "MCP server http://127.0.0.1:1/mcp: no answer in 0.05 s"
    assert await pool.call(identity) == 2
    await pool.close()


async def test_idle_sessions_make_room(monkeypatch: pytest.MonkeyPatch) -> None:
    """The least recently used ones that nobody uses are closed; one in use never is."""
    monkeypatch.setattr(mcp_session_manager, "MAX_SESSIONS", 2)
    pool = Pool()
    begun, release = asyncio.Event(), asyncio.Event()

    async def busy(session: Any) -> Any:
        begun.set()
        await release.wait()
        return session

    working = asyncio.create_task(pool.call(busy, headers={"user": "0"}))
    await begun.wait()
    for user in ("1", "2", "3"):
        await pool.call(identity, headers={"user": user})
    await until(lambda: len(pool.closed) == 2)
    assert pool.closed == [2, 3]
    release.set()
    assert await working == 1
    await pool.close()


async def test_closing_abandons_a_session_that_does_not_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """RUN-11: the time to close is bounded whatever a transport does."""
    monkeypatch.setattr(mcp_session_manager, "CLOSE_TIMEOUT", 0.1)
    pool = Pool(stubborn=True)
    await pool.call(identity)
    async with asyncio.timeout(PATIENCE):
        await pool.close()
    assert pool.closed == []
