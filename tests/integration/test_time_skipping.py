"""Months of waiting in seconds, on a server that skips time in which nothing happens (F33, F34).

Each workflow has a clock of its own there; it jumps when nothing but timers is under way.
"""

import asyncio
import itertools
import time
from collections.abc import AsyncGenerator, AsyncIterator
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from google.genai import types
from temporalio.testing import WorkflowEnvironment
from temporalio.testing._timeskipping import TimeSkippingConfig

from durable_adk.activities.commit import early_commit
from durable_adk.agents import BaseAgent, InvocationContext, LlmAgent, ParallelAgent
from durable_adk.apps import App
from durable_adk.context.activity import ToolContext
from durable_adk.embedded.server import DYNAMIC_CONFIG, _binary
from durable_adk.errors import InvalidRequestError, ModelUnavailableError
from durable_adk.events import Event
from durable_adk.models import LlmRequest, ScriptedModel
from durable_adk.tools import FunctionTool
from durable_adk.wire.converter import data_converter
from tests.support.deploy_places import Place
from tests.support.scripts import USER, call, gist, stored

DAY = 86_400.0
MONTH = timedelta(days=30)
SETTINGS = {"frontend.WorkflowTimeSkippingEnabled": "true"} | DYNAMIC_CONFIG


@pytest.fixture(scope="module")
async def environment() -> AsyncIterator[WorkflowEnvironment]:
    """A server of our own, which skips time on request."""
    given = [("--dynamic-config-value", f"{name}={value}") for name, value in SETTINGS.items()]
    async with await WorkflowEnvironment.start_time_skipping_v2(
        ts_config=TimeSkippingConfig(enabled=False),
        dev_server_existing_path=str(_binary()),
        dev_server_extra_args=list(itertools.chain(*given)),
        data_converter=data_converter,
    ) as environment:
        yield environment


@pytest.fixture
async def place(environment: WorkflowEnvironment, tmp_path: Path) -> AsyncIterator[Place]:
    """A task queue and a store."""
    async with Place.opened(environment.client, tmp_path) as place:
        yield place


async def pass_by(environment: WorkflowEnvironment, place: Place, days: float | None) -> bool:
    """Let days go by for the open invocation, or all it takes; whether it is open still."""
    span = None if days is None else timedelta(days=days)
    return await environment.fast_forward(place.handle(), span)


async def days(place: Place) -> float:
    """How much of its own time the invocation's workflow has taken."""
    history = await place.handle().fetch_history()
    first, last = history.events[0].event_time, history.events[-1].event_time
    return (last.ToDatetime() - first.ToDatetime()).total_seconds() / DAY


PAID: list[str] = []


def pay(order: str) -> str:
    """Pay."""
    PAID.append(order)
    return "paid"


def desk(**policy: Any) -> LlmAgent:
    """Asks for an approval that has 30 days."""
    PAID.clear()
    tool = FunctionTool(pay, require_confirmation=True, deadline=MONTH, **policy)
    return LlmAgent(
        name="desk", model=ScriptedModel(replies=[call("pay", order="o"), "done"]), tools=[tool]
    )


async def test_an_approval_may_take_29_of_its_30_days(
    environment: WorkflowEnvironment, place: Place
) -> None:
    """F34, D9, I16: the answer of day 29 counts, and the deadline then does nothing."""
    async with place.worker(App(name="app", root_agent=desk())) as runner:
        await place.start(runner)
        await place.waits(runner)
        assert await pass_by(environment, place, 29)
        assert PAID == []
        await place.approve(runner)
        assert await place.end() == "completed"
        assert PAID == ["o"]
        assert 29 <= await days(place) < 30


EXPIRED: dict[str, tuple[str, list[str], str]] = {
    "reject": ("completed", [], "desk text done"),
    "approve": ("completed", ["o"], "desk text done"),
    "tell": ("completed", [], "desk text done"),
    "fail": ("failed", [], "desk error ToolTimeoutError"),
}
"""By policy, how the run ends, what was paid, and the last event."""


@pytest.mark.parametrize("policy", EXPIRED)
async def test_an_approval_expires_as_its_tool_says(
    environment: WorkflowEnvironment, place: Place, policy: str
) -> None:
    """F34, D9: on day 30 and not before; an answer that comes later is refused and does nothing."""
    status, paid, last = EXPIRED[policy]
    async with place.worker(App(name="app", root_agent=desk(on_deadline=policy))) as runner:
        await place.start(runner)
        await place.waits(runner)
        (pending,) = await runner.pending(**USER)
        assert await pass_by(environment, place, 29.9)
        assert await runner.pending(**USER) == [pending]
        await pass_by(environment, place, 0.2)
        assert await place.status() == status
        assert (await place.log(runner))[-1] == last
        assert await runner.pending(**USER) == []
        with pytest.raises(InvalidRequestError):
            await place.confirm(runner, pending)
        assert paid == PAID
        assert 30 <= await days(place) < 30.2


class Reminding(BaseAgent):
    """Reminds of an approval, once a day, until it is given."""

    async def _run_async_impl(self, ctx: InvocationContext) -> AsyncGenerator[Event, None]:
        for day in range(1, 31):
            await asyncio.sleep(DAY)
            if "decided" in ctx.session.state:
                return
            content = types.Content(role="model", parts=[types.Part(text=f"day {day}")])
            yield Event(author=self.name, content=content)


def decide(tool_context: ToolContext) -> str:
    """Decide."""
    tool_context.state["decided"] = True
    return "decided"


@pytest.mark.thorough
@pytest.mark.parametrize("answered", [None, 12], ids=["to the end", "until it is given"])
async def test_somebody_is_reminded_every_day(
    environment: WorkflowEnvironment, place: Place, answered: int | None
) -> None:
    """F34, D9: a body of one's own sleeps a day at a time while an approval is waited for."""
    tool = FunctionTool(decide, require_confirmation=True, deadline=timedelta(days=30, hours=1))
    model = ScriptedModel(replies=[call("decide"), "done"])
    asking = LlmAgent(name="desk", model=model, tools=[tool])
    both = ParallelAgent(name="both", sub_agents=[asking, Reminding(name="clock")])
    async with place.worker(App(name="app", root_agent=both)) as runner:
        await place.start(runner)
        await place.waits(runner)
        if answered:
            await pass_by(environment, place, answered + 0.5)
            await place.approve(runner)
        await pass_by(environment, place, None)
        assert await place.end() == "completed"
        log = await place.log(runner)
    reminders = [line for line in log if line.startswith("clock")]
    assert reminders == [f"clock text day {day + 1}" for day in range(answered or 30)]
    assert await days(place) == pytest.approx(answered + 1 if answered else 30 + 1 / 24, abs=0.1)


async def test_a_model_is_asked_again_every_hour(
    environment: WorkflowEnvironment, place: Place
) -> None:
    """D11: 429 with Retry-After 3600, four times; the fifth answer counts."""
    failures = [ModelUnavailableError("429", retry_after=3600) for _ in range(4)]

    def reply(request: LlmRequest) -> str:
        del request
        if failures:
            raise failures.pop()
        return "at last"

    agent = LlmAgent(name="a", model=ScriptedModel(replies=reply))
    async with place.worker(App(name="app", root_agent=agent)) as runner:
        await place.start(runner)
        await pass_by(environment, place, None)
        assert await place.end() == "completed"
        assert await place.log(runner) == ["user text go", "a text at last"]
    assert 4 <= await days(place) * 24 < 4.5


class Clock(SimpleNamespace):
    """A clock that goes back an hour whenever it is looked at."""

    def __init__(self) -> None:
        super().__init__(now=time.time(), looks=0)

    def time(self) -> float:
        """An hour less than before."""
        self.looks += 1
        self.now -= 3600
        return self.now


async def test_a_clock_that_goes_back_reorders_nothing(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """F33, I3, I15: order is the store's number; also in what the model is shown."""
    clock = Clock()
    monkeypatch.setattr(early_commit, "time", clock)
    model = ScriptedModel(replies=[call("pay", order="1"), call("pay", order="2"), "done"])
    agent = LlmAgent(name="a", model=model, tools=[pay])
    async with place.worker(App(name="app", root_agent=agent)) as runner:
        await place.start(runner)
        assert await place.end() == "completed"
        events = await stored(runner)
    worked = ["a call pay", "a response pay"]
    assert [gist(event) for event in events] == ["user text go", *worked, *worked, "a text done"]
    stamps = [event.timestamp for event in events[1:]]
    assert stamps == sorted(stamps, reverse=True)
    assert clock.looks == len(stamps)
    roles = [content.role for content in model.requests[-1].contents]
    assert roles == ["user", "model", "user", "model", "user"]
