"""Limits as data: what an invocation may use up (issue 4, S17)."""

import asyncio
from collections.abc import AsyncGenerator, Callable

import pytest
from google.genai import types

from durable_adk.agents import BaseAgent, InvocationContext, LlmAgent
from durable_adk.agents.run_config import RunConfig
from durable_adk.errors import BudgetExceededError, ToolTimeoutError
from durable_adk.events import Event
from durable_adk.models import LlmRequest, LlmResponse, ScriptedModel
from durable_adk.settings import Limits
from durable_adk.tools import AgentTool, FunctionTool
from durable_adk.wire.run_config import Budget
from tests.conftest import MakeRunner
from tests.support.scripts import call, calls, gist, send, stored
from tests.support.waiting import PATIENCE, forever

RUNS: list[int] = []


def work(n: int = 0) -> int:
    """A tool that counts its runs."""
    RUNS.append(n)
    return n


async def doze() -> None:
    """A tool that takes its time."""
    await forever()


def runaway(**fields: object) -> LlmAgent:
    """Never ends by itself; each answer is said to cost 10 tokens."""
    usage = types.GenerateContentResponseUsageMetadata(total_token_count=10)

    def reply(request: LlmRequest) -> LlmResponse:
        return LlmResponse(content=call("work", n=len(request.contents)), usage_metadata=usage)

    return LlmAgent(name="a", model=ScriptedModel(replies=reply), tools=[work], **fields)


@pytest.mark.parametrize(
    ("budget", "runs"),
    [
        (Budget(model_calls=3), 3),
        (Budget(tool_calls=2), 2),
        (Budget(tokens=25), 3),
        (Budget(model_calls=50, tool_calls=2), 2),
    ],
    ids=str,
)
async def test_a_runaway_stops_at_its_budget_with_an_event_that_says_which(
    budget: Budget, runs: int, make_runner: MakeRunner
) -> None:
    """S17: the run fails, the event names what is used up, and every call has its response."""
    RUNS.clear()
    runner = await make_runner(runaway())
    name = min(budget.model_dump(exclude_none=True), key=lambda one: getattr(budget, one))
    with pytest.raises(BudgetExceededError, match=f"budget of .* {name.replace('_', ' ')}"):
        await send(runner, run_config=RunConfig(budget=budget))
    assert len(RUNS) == runs
    events = await stored(runner)
    assert gist(events[-1]) == "a error BudgetExceededError"
    asked = [one.id for event in events for one in event.get_function_calls()]
    answered = [one.id for event in events for one in event.get_function_responses()]
    assert asked == answered


async def test_nobody_gets_more_than_the_app_allows(make_runner: MakeRunner) -> None:
    """S17: of the app's budget and the message's the smaller one counts, each by itself."""
    RUNS.clear()
    runner = await make_runner(runaway(), budget=Budget(tool_calls=2, tokens=1000))
    with pytest.raises(BudgetExceededError, match="2 tool calls"):
        await send(runner, run_config=RunConfig(budget=Budget(tool_calls=100, tokens=900)))
    assert len(RUNS) == 2


async def test_calls_at_once_are_counted_before_any_of_them_runs(make_runner: MakeRunner) -> None:
    """S17: of three calls that a budget of two does not allow none is run."""
    RUNS.clear()
    replies = [calls(*[("work", {"n": n}) for n in range(3)]), "done"]
    runner = await make_runner(
        LlmAgent(name="a", model=ScriptedModel(replies=replies), tools=[work])
    )
    with pytest.raises(BudgetExceededError, match="tool calls"):
        await send(runner, run_config=RunConfig(budget=Budget(tool_calls=2)))
    assert RUNS == []


async def test_agents_used_as_tools_share_the_budget(make_runner: MakeRunner) -> None:
    """S17, TOL-21: what such an agent uses is used; the caller gets its error."""
    RUNS.clear()
    helper = runaway(description="helps").clone({"name": "helper"})
    asking = ScriptedModel(replies=[call("helper", request="help"), "done"])
    runner = await make_runner(LlmAgent(name="a", model=asking, tools=[AgentTool(helper)]))
    with pytest.raises(BudgetExceededError, match="tool calls"):
        await send(runner, run_config=RunConfig(budget=Budget(tool_calls=4)))
    assert len(RUNS) == 3


async def test_time_is_a_budget_too(make_runner: MakeRunner) -> None:
    """S17, F11: a step that takes longer than what is left is ended with the run."""
    model = ScriptedModel(replies=[call("doze"), "done"])
    runner = await make_runner(LlmAgent(name="a", model=model, tools=[doze]))
    async with asyncio.timeout(PATIENCE):
        with pytest.raises(BudgetExceededError, match=r"0\.5 seconds"):
            await send(runner, run_config=RunConfig(budget=Budget(seconds=0.5)))
    assert gist((await stored(runner))[-1]) == "a error BudgetExceededError"


class Stubborn(BaseAgent):
    """Catches its end, and continues."""

    says: bool

    async def _run_async_impl(self, ctx: InvocationContext) -> AsyncGenerator[Event, None]:
        try:
            await asyncio.sleep(3600)
        except BaseException:  # noqa: BLE001 - as a bare except does
            if self.says:
                yield Event(author=self.name, message="first")
                yield Event(author=self.name, message="second")


@pytest.mark.parametrize(("says", "kept"), [(True, ["s text first"]), (False, [])])
async def test_a_body_that_catches_its_end_ends(
    make_runner: MakeRunner, says: bool, kept: list[str]
) -> None:
    """S17: with the event that it yields then, if any."""
    runner = await make_runner(Stubborn(name="s", says=says))
    async with asyncio.timeout(PATIENCE):
        with pytest.raises(BudgetExceededError, match=r"0\.5 seconds"):
            await send(runner, run_config=RunConfig(budget=Budget(seconds=0.5)))
    told = [gist(event) for event in await stored(runner)][1:]
    assert told == [*kept, "s error BudgetExceededError"]


async def test_a_tools_own_timeout_is_not_taken_for_the_end_of_the_time(
    make_runner: MakeRunner,
) -> None:
    """D11: the error says what happened."""
    model = ScriptedModel(replies=[call("doze"), "done"])
    slow = FunctionTool(doze, timeout=0.2)
    runner = await make_runner(LlmAgent(name="a", model=model, tools=[slow]))
    with pytest.raises(ToolTimeoutError):
        await send(runner, run_config=RunConfig(budget=Budget(seconds=600)))


@pytest.mark.thorough
@pytest.mark.parametrize("make_runner", ["temporal"], indirect=True)
async def test_a_new_run_of_the_workflow_does_not_renew_the_budget(
    make_runner: MakeRunner,
) -> None:
    """S17, D10: what was used before the workflow continued as new stays used."""
    RUNS.clear()
    runner = await make_runner(runaway(), limits=Limits(max_history_events=1))
    with pytest.raises(BudgetExceededError, match="4 tool calls"):
        await send(runner, run_config=RunConfig(budget=Budget(tool_calls=4)))
    assert len(RUNS) == 4


@pytest.mark.parametrize("name", list(Budget.model_fields))
def test_a_budget_of_less_than_nothing_is_refused(name: str) -> None:
    """S15: the error names the field."""
    limit: Callable[..., Budget] = Budget
    with pytest.raises(ValueError, match=name):
        limit(**{name: -1})
