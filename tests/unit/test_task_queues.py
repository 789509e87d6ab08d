"""Whether a start is eager, and what finding that out may cost it."""

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest
from temporalio.api.workflowservice.v1 import DescribeTaskQueueResponse
from temporalio.service import RPCError, RPCStatusCode

from durable_adk import task_queues
from durable_adk.task_queues import starts_here
from tests.support.waiting import PATIENCE


class Temporal:
    """Answers, refuses or does not answer questions about a queue that is polled here."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, answer: Any) -> None:
        self.asked = 0
        self._answer = answer
        self.client: Any = SimpleNamespace(
            service_client=object(),
            namespace="default",
            workflow_service=SimpleNamespace(describe_task_queue=self._described),
        )
        polled = task_queues._Polled(workers=1)
        monkeypatch.setitem(task_queues._polled, task_queues._key(self.client, "q"), polled)

    async def _described(self, request: Any, **_: Any) -> Any:
        self.asked += 1
        await asyncio.sleep(0)
        if isinstance(self._answer, asyncio.Event):
            await self._answer.wait()
        if isinstance(self._answer, Exception):
            raise self._answer
        return DescribeTaskQueueResponse()

    async def starts(self) -> bool:
        """Ask for one start."""
        return await starts_here(self.client, "q")


async def test_starts_at_once_ask_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The others do not wait for the answer; starts behind it are all eager."""
    temporal = Temporal(monkeypatch, None)
    assert sum(await asyncio.gather(*(temporal.starts() for _ in range(20)))) == 1
    assert all([await temporal.starts() for _ in range(3)])
    assert temporal.asked == 1


async def test_a_temporal_that_refuses_to_say_is_not_asked_for_each_start(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Starts are right, and not eager."""
    temporal = Temporal(monkeypatch, RPCError("no", RPCStatusCode.PERMISSION_DENIED, b""))
    assert not any([await temporal.starts() for _ in range(3)])
    assert temporal.asked == 1


async def test_a_temporal_that_does_not_answer_delays_no_start_for_long(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """At most for a moment, and the next ones not at all."""
    assert task_queues._START_WAITS <= 0.5
    monkeypatch.setattr(task_queues, "_START_WAITS", 0.01)
    temporal = Temporal(monkeypatch, asyncio.Event())
    async with asyncio.timeout(PATIENCE):
        assert not any([await temporal.starts() for _ in range(3)])
    assert temporal.asked == 1
