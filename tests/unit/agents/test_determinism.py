"""The guard round a custom agent's body."""

import asyncio
import datetime as dt
import os
import random
import time
import uuid
from collections.abc import AsyncGenerator, Callable
from random import choice
from time import monotonic
from typing import Any

import pytest
from google.genai import types

from durable_adk.agents import BaseAgent, InvocationContext
from durable_adk.errors import DeterminismError
from durable_adk.events import Event
from durable_adk.runners import InMemoryRunner
from tests.support.scripts import send


class Clock(BaseAgent):
    async def _run_async_impl(self, ctx: InvocationContext) -> AsyncGenerator[Event, None]:
        yield Event(author=str(time.time()))


class FromClock(BaseAgent):
    async def _run_async_impl(self, ctx: InvocationContext) -> AsyncGenerator[Event, None]:
        yield Event(author=str(monotonic()))


class Dice(BaseAgent):
    async def _run_async_impl(self, ctx: InvocationContext) -> AsyncGenerator[Event, None]:
        yield Event(author=str(random.random()))


class FromDice(BaseAgent):
    async def _run_async_impl(self, ctx: InvocationContext) -> AsyncGenerator[Event, None]:
        yield Event(author=choice(["a", "b"]))


class Id(BaseAgent):
    async def _run_async_impl(self, ctx: InvocationContext) -> AsyncGenerator[Event, None]:
        yield Event(author=str(uuid.uuid4()))


class Now(BaseAgent):
    async def _run_async_impl(self, ctx: InvocationContext) -> AsyncGenerator[Event, None]:
        yield Event(author=str(dt.datetime.now(dt.UTC)))


class Environment(BaseAgent):
    async def _run_async_impl(self, ctx: InvocationContext) -> AsyncGenerator[Event, None]:
        yield Event(author=os.getenv("HOME", ""))


class File(BaseAgent):
    async def _run_async_impl(self, ctx: InvocationContext) -> AsyncGenerator[Event, None]:
        with open(__file__) as file:  # noqa: ASYNC230, PTH123
            yield Event(author=file.readline())


class Thread(BaseAgent):
    async def _run_async_impl(self, ctx: InvocationContext) -> AsyncGenerator[Event, None]:
        await asyncio.to_thread(print)
        yield Event()


@pytest.mark.parametrize(
    ("agent", "name"),
    [
        (Clock, "time.time"),
        (FromClock, "time.monotonic"),
        (Dice, "random.random"),
        (FromDice, "random.choice"),
        (Id, "uuid.uuid4"),
        (Now, "datetime.now"),
        (Environment, "os.getenv"),
        (File, "open"),
        (Thread, "asyncio.to_thread"),
    ],
)
async def test_what_cannot_be_replayed_is_named_at_the_first_run(
    agent: Callable[..., BaseAgent], name: str
) -> None:
    """D2, TRAP-20: the error says what, why, and where it belongs."""
    async with InMemoryRunner(agent(name="a")) as runner:
        with pytest.raises(DeterminismError, match=rf"^{name} may not be used .* tool") as caught:
            await send(runner)
    assert caught.value.error_type == "DeterminismError"


class Decent(BaseAgent):
    """Uses the same modules for what is the same at every run."""

    limit: int = 2

    async def _run_async_impl(self, ctx: InvocationContext) -> AsyncGenerator[Event, None]:
        await asyncio.sleep(0)
        moment = dt.datetime(2026, 1, 5, tzinfo=dt.UTC)
        assert isinstance(moment, dt.datetime)
        assert isinstance(os.path.join("a", "b"), str)  # noqa: PTH118
        name = uuid.uuid5(uuid.NAMESPACE_URL, moment.isoformat())
        yield self._event(f"{name} {super().find_agent('a') is self} {self.limit}")

    def _event(self, text: str) -> Event:
        return Event(content=types.Content(parts=[types.Part(text=text)]))


async def test_what_can_be_replayed_is_not_touched() -> None:
    """Methods, `super()`, fields, time arithmetic and derived ids work as anywhere."""
    async with InMemoryRunner(Decent(name="a")) as runner:
        (event,) = await send(runner)
    assert event.text.endswith(" True 2")


def test_the_module_itself_is_not_changed() -> None:
    """Only the body's names are swapped; everybody else's stay."""
    values: list[Any] = [time.time(), random.random(), uuid.uuid4(), dt.datetime.now(dt.UTC)]
    assert all(values)
