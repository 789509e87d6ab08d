"""Servers of A2A that are killed while a task is under way."""

import asyncio
import signal
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import httpx
import pytest
from a2a.client import A2AClientError
from a2a.types import GetTaskRequest

from durable_adk.agents import LlmAgent
from durable_adk.tools import FunctionTool
from tests.server.test_server_kills import started
from tests.support.a2a_client import (
    answers,
    asked,
    brief,
    connected,
    followed,
    said,
    sending,
    state,
    task_of,
)
from tests.support.commands import Terminal
from tests.support.http_server import placed
from tests.support.streams import StreamingModel, a_call

pytestmark = pytest.mark.thorough
PAID: list[int] = []


def pay(amount: int) -> str:
    """Pay an amount."""
    PAID.append(amount)
    return f"paid {amount}"


@pytest.fixture
def terminal(tmp_path: Path) -> Iterator[Terminal]:
    """Where the servers are started."""
    PAID.clear()
    opened = Terminal(tmp_path)
    yield opened
    opened.close()


async def test_a_task_survives_its_servers(client, server, terminal, tmp_path):
    """SIGKILL amid an answer, and while a decision is awaited: other servers go on with the task.

    The message that was on its way is sent again and starts no second run; the decision is sent
    twice, to two servers, and the tool runs once.
    """
    gate = asyncio.Event()
    turns = [[a_call("pay", amount=3)], ["one ", gate, "two", "one two"]]
    tools = [FunctionTool(pay, require_confirmation=True)]
    agent = LlmAgent(name="a", model=StreamingModel(turns=turns), tools=tools)
    async with placed(client, tmp_path, agent) as place, asyncio.timeout(90):
        (first, here), (second, there), (_, last) = [
            await started(terminal, place, server) for _ in range(3)
        ]
        start = said("pay")
        async with connected(httpx.URL(here), streaming=False) as one:
            task = await task_of(one, start)
        first.send_signal(signal.SIGKILL)
        assert first.wait() == -signal.SIGKILL
        decision = said({"confirmed": True}, task=task.id)
        async with connected(httpx.URL(there)) as two:
            found = await two.get_task(GetTaskRequest(id=task.id))
            assert (state(found), asked(found)) == ("(input-required)", asked(task))
            shown = []
            with suppress(A2AClientError, httpx.TransportError):  # it is killed
                async for update in sending(two, decision):
                    shown.append(brief(update))
                    if shown[-1] == "~one ":
                        second.send_signal(signal.SIGKILL)
        assert second.wait() == -signal.SIGKILL
        async with connected(httpx.URL(last)) as three:
            rest = []
            async for update in followed(three, task.id):
                rest.append(brief(update))
                gate.set()
        async with connected(httpx.URL(last), streaming=False) as three:
            again = [await task_of(three, start), await task_of(three, decision)]
        runs = await place.sessions.count_invocations(app_name="app")
    assert shown == ["task (working)", "~one "]
    assert rest[0] == "task (working)"
    assert rest[-2:] == ["one two", "(completed)"]
    assert [(one.id, answers(one)) for one in again] == [(task.id, ["one two"])] * 2
    assert sum(runs.values()) == 1
    assert PAID == [3]
