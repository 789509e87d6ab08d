"""Servers of A2A that are killed while a task is under way."""

import asyncio
import signal
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path

import httpx
import pytest
from a2a.client import A2AClientError
from a2a.types import GetTaskRequest, TaskPushNotificationConfig

from durable_adk.agents import LlmAgent
from durable_adk.settings import Webhooks
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
from tests.support.receiver import Receiver, receiving
from tests.support.streams import StreamingModel, a_call
from tests.support.waiting import PATIENCE, until

pytestmark = [pytest.mark.thorough, pytest.mark.sampled(6)]
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
    """SIGKILL amid an answer, and while a decision is awaited: other servers continue the task.

    The message that was on its way is sent again and starts no second run; the decision is sent
    twice, to two servers, and the tool runs once.
    """
    gate = asyncio.Event()
    turns = [[a_call("pay", amount=3)], ["one ", gate, "two", "one two"]]
    tools = [FunctionTool(pay, require_confirmation=True)]
    agent = LlmAgent(name="a", model=StreamingModel(turns=turns), tools=tools)
    async with placed(client, tmp_path, agent) as place, asyncio.timeout(4 * PATIENCE):
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


def came(receiver: Receiver, before: int) -> bool:
    """Whether a receiver has got more than before."""
    return len(receiver.received) > before


async def test_a_notification_survives_its_server(client, server, terminal, tmp_path):
    """SIGKILL after the run has begun: its receiver gets each state once.

    Workers also notify it of the answer, which another server takes before it is killed.
    """
    terminal.env["DURABLE_ADK_PUSH_HOSTS"] = '["127.0.0.1"]'
    gates = [asyncio.Event(), asyncio.Event()]
    turns = [[gates[0], a_call("pay", amount=3)], [gates[1], "Done."]]
    tools = [FunctionTool(pay, require_confirmation=True)]
    agent = LlmAgent(name="a", model=StreamingModel(turns=turns), tools=tools)
    webhooks = Webhooks(push_hosts=("127.0.0.1",))
    with receiving(signed=False) as receiver:
        config = TaskPushNotificationConfig(url=receiver.url, token="t")  # noqa: S106 - of this test
        async with (
            placed(client, tmp_path, agent, webhooks) as place,
            asyncio.timeout(4 * PATIENCE),
        ):
            task_id = ""
            servers = [await started(terminal, place, server) for _ in gates]
            for gate, (process, here) in zip(gates, servers, strict=True):
                async with connected(httpx.URL(here), streaming=False) as one:
                    if task_id:
                        decision = said({"confirmed": True}, task=task_id)
                        await task_of(one, decision, at_once=True)
                    else:
                        begun = await task_of(one, said("pay"), at_once=True, push=config)
                        task_id = begun.id
                process.send_signal(signal.SIGKILL)
                assert process.wait() == -signal.SIGKILL
                told = len(receiver.received)
                gate.set()
                await until(partial(came, receiver, told))
            found = client.list_workflows(
                f"WorkflowType = 'DeliverWebhook' AND TaskQueue = '{place.queue}'"
            )
            for name in [one.id async for one in found]:
                await client.get_workflow_handle(name).result()
    updates = [one["statusUpdate"] for one in receiver.received]
    states = [one["status"]["state"] for one in updates]
    assert states == ["TASK_STATE_INPUT_REQUIRED", "TASK_STATE_COMPLETED"]
    assert {one["taskId"] for one in updates} == {task_id}
    assert len(set(receiver.ids)) == len(receiver.ids) == 2
    assert PAID == [3]
