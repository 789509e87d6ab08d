"""Calls of a toolset's tools while the toolset cannot be asked which tools it has."""

import asyncio
from typing import Any, ClassVar

import pytest

from durable_adk.activities.attempt import history_after
from durable_adk.activities.tool import run
from durable_adk.activities.tool.run import MAX_TOOLSET_ATTEMPTS, ToolsetUnavailable
from durable_adk.attempt_history import NO_ATTEMPTS, AttemptHistory
from durable_adk.client.queries import read_attempts
from durable_adk.conversation.client_requests import REQUEST_CONFIRMATION
from durable_adk.errors import ToolsetUnavailableError
from durable_adk.runners import InMemoryRunner
from durable_adk.tools import BaseTool, BaseToolset, FunctionTool, ToolContract, base_toolset
from durable_adk.tools.require_confirmation import REJECTED
from durable_adk.wire.effect import Attempt
from tests.support.pausing import answer, message
from tests.support.scripts import USER, call, send
from tests.support.steps import INVOCATION, KEY, Steps, called, said
from tests.support.waiting import until

HANGS = TimeoutError("hangs")


class Remote(BaseToolset):
    """A toolset whose server may be away."""

    hanging: ClassVar[list["Remote"]] = []
    """Those that somebody waits for."""

    def __init__(self, **options: Any) -> None:
        super().__init__()
        self.options = options
        self.away: Exception | None = None
        self.asked = self.hang_together = 0
        self.paid: list[int] = []

    async def pay(self, amount: int) -> str:
        """Pay."""
        self.paid.append(amount)
        return "paid"

    async def get_tools(self, readonly_context: Any = None) -> list[BaseTool]:
        """The tool, unless the server is away."""
        self.asked += 1
        if self.away is HANGS:
            self.hanging.append(self)
            self.hang_together = len(self.hanging)
            try:
                await asyncio.Event().wait()
            finally:
                self.hanging.remove(self)
        if self.away:
            raise self.away
        return [FunctionTool(self.pay, **self.options)]


@pytest.fixture(autouse=True)
def _no_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """Asked once an attempt, and retried soon."""
    monkeypatch.setattr(base_toolset, "TOOLSET_TIMEOUT", 0.0)
    monkeypatch.setattr(run, "MAX_TOOLSET_DELAY", 0.01)


def look() -> str:
    """Look."""
    return "seen"


def steps(remote: Remote, **fields: Any) -> Steps:
    """An agent whose model has it pay 5."""
    return Steps(called("pay", amount=5), tools=[look, remote], **fields)


def after(times: int) -> AttemptHistory:
    """What the attempts have reported, of which so many lacked the toolset."""
    history = NO_ATTEMPTS
    for number in range(1, times + 1):
        history = history_after(
            history, number, ToolsetUnavailable(ToolsetUnavailableError("away"), 0.0)
        )
    return history


@pytest.mark.parametrize("away", [ConnectionError("no"), ValueError("no"), SystemExit(1)])
async def test_a_call_waits_for_its_toolset(away: Any) -> None:
    """F23, I20: whatever keeps it from being asked, the call is retried, and then it runs."""
    remote = Remote()
    made = steps(remote)
    step = await made.tool_step()
    remote.away = away
    with pytest.raises(ToolsetUnavailable) as info:
        await made.effects.perform(step, Attempt(number=1))
    assert isinstance(info.value.error, ToolsetUnavailableError)
    assert "'pay'" in info.value.error.message
    assert "Remote" in info.value.error.message
    [told] = await read_attempts(made.sessions, KEY, INVOCATION)
    assert (told.attempt, told.error_type, told.tool) == (1, "ToolsetUnavailableError", "pay")
    remote.away = None
    result = await made.effects.perform(step, Attempt(number=2, history=after(1)))
    assert (said(result), remote.paid) == ({"result": "paid"}, [5])


async def test_the_model_is_told_of_a_toolset_that_stays_away() -> None:
    """I11: after some attempts, with the reason, and never that there is no such tool."""
    remote = Remote()
    made = steps(remote)
    step = await made.tool_step()
    remote.away = ConnectionError("no")
    with pytest.raises(ToolsetUnavailable):
        await made.effects.perform(
            step,
            Attempt(number=MAX_TOOLSET_ATTEMPTS - 1, history=after(MAX_TOOLSET_ATTEMPTS - 2)),
        )
    result = await made.effects.perform(
        step, Attempt(number=MAX_TOOLSET_ATTEMPTS, history=after(MAX_TOOLSET_ATTEMPTS - 1))
    )
    text = said(result)["error"]
    assert text.startswith("Tool 'pay' was not run: Remote")
    assert "ConnectionError" in text
    assert "look" in text
    assert "not found" not in text
    assert remote.paid == []


async def test_a_hook_may_answer_for_a_toolset_that_stays_away() -> None:
    """FLW-47: as for a tool that does not exist."""
    seen: list[Exception] = []

    def recover(tool: Any, args: Any, tool_context: Any, error: Exception) -> dict[str, str]:
        seen.append(error)
        return {"result": f"{tool.name} later"}

    remote = Remote()
    made = steps(remote, on_tool_error_callback=recover)
    step = await made.tool_step()
    remote.away = ConnectionError("no")
    result = await made.effects.perform(
        step, Attempt(number=MAX_TOOLSET_ATTEMPTS, history=after(MAX_TOOLSET_ATTEMPTS - 1))
    )
    assert said(result) == {"result": "pay later"}
    assert isinstance(seen[0], ToolsetUnavailableError)


async def test_lost_attempts_leave_the_outcome_unknown() -> None:
    """I8: one of them may have run the tool; that it was not run is not said then."""
    remote = Remote()
    made = steps(remote)
    step = await made.tool_step()
    remote.away = ConnectionError("no")
    history = after(MAX_TOOLSET_ATTEMPTS - 1)
    result = await made.effects.perform(
        step, Attempt(number=MAX_TOOLSET_ATTEMPTS + 1, history=history)
    )
    assert said(result)["outcome"] == "unknown"


async def test_other_tools_do_not_wait() -> None:
    """AGT-24: what is there is run; a name that nobody can have is still not found."""
    remote = Remote()
    made = Steps(called("look"), tools=[look, remote])
    step = await made.tool_step()
    remote.away = ConnectionError("no")
    assert said(await made.effects.perform(step)) == {"result": "seen"}
    there = Steps(called("lok"), tools=[look, Remote()])
    assert "not found" in said(await there.effects.perform(await there.tool_step()))["error"]


async def test_a_toolset_that_hangs_takes_nothing_of_the_tools_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A tool with a short timeout has not even begun while its toolset is asked."""
    monkeypatch.setattr(base_toolset, "LOAD_TIMEOUT", 0.3)
    remote, other = Remote(), Remote()
    made = Steps(called("pay", amount=5), tools=[remote, other])
    step = await made.tool_step(attempt_timeout=0.05)
    remote.away = other.away = HANGS
    with pytest.raises(ToolsetUnavailable):
        await made.effects.perform(step, Attempt(number=1))
    assert max(remote.hang_together, other.hang_together) == 2


async def test_a_result_that_has_arrived_needs_no_toolset_in_the_end() -> None:
    """I8: the tool has run, whatever becomes of its toolset; the model gets what it returned."""

    async def wait(**_: Any) -> None:
        entered.append(True)
        if len(entered) == 1:
            await asyncio.Event().wait()

    entered: list[bool] = []
    remote = Remote()
    made = steps(remote, after_tool_callback=wait)
    step = await made.tool_step()
    lost = asyncio.ensure_future(made.effects.perform(step, Attempt(number=1)))
    await until(lambda: entered)
    lost.cancel()
    remote.away = ConnectionError("no")
    with pytest.raises(ToolsetUnavailable):
        await made.effects.perform(step, Attempt(number=2))
    result = await made.effects.perform(
        step, Attempt(number=9, history=after(MAX_TOOLSET_ATTEMPTS - 1))
    )
    assert (said(result), remote.paid) == ({"result": "paid"}, [5])


async def test_in_process_a_call_waits_as_well(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on Temporal, and with the same end."""
    monkeypatch.setattr(run, "MAX_TOOLSET_DELAY", 0.2)
    remote = Remote()

    def reply(request: Any) -> Any:
        last = request.contents[-1].parts[-1]
        if last.function_response:
            return str(last.function_response.response)
        remote.away = ConnectionError("no")
        if last.text == "short":
            asyncio.get_running_loop().call_later(0.3, setattr, remote, "away", None)
        return call("pay", amount=5)

    made = Steps(reply, tools=[remote])
    async with InMemoryRunner(made.agent) as runner:
        assert (await send(runner, "short"))[-1].text == "{'result': 'paid'}"
        assert "was not run" in (await send(runner, "long"))[-1].text
    assert remote.paid == [5]


@pytest.mark.parametrize("confirmed", [True, False])
async def test_an_approved_call_waits_for_its_toolset(*, confirmed: bool) -> None:
    """TOL-60, I16: after the pause the worker may be another one; a no needs no toolset to stay."""
    remote = Remote(require_confirmation=True)
    made = Steps(called("pay", amount=5), tools=[remote])
    async with InMemoryRunner(made.agent) as runner:
        made_calls = [c for event in await send(runner) for c in event.get_function_calls()]
        request = next(c for c in made_calls if c.name == REQUEST_CONFIRMATION)
        remote.away = ConnectionError("no")
        asyncio.get_running_loop().call_later(0.05, setattr, remote, "away", None)
        told = message(answer(request.id, request.name, {"confirmed": confirmed}))
        events = [event async for event in runner.run_async(**USER, new_message=told)]
    responses = [r.response for event in events for r in event.get_function_responses()]
    assert responses[-1] == ({"result": "paid"} if confirmed else {"error": REJECTED})
    assert remote.paid == ([5] if confirmed else [])


async def test_a_toolsets_tool_keeps_its_contract_while_it_waits() -> None:
    """D7: waiting is no run; at most once is once."""
    remote = Remote(contract=ToolContract.AT_MOST_ONCE)
    made = steps(remote)
    step = await made.tool_step()
    remote.away = ConnectionError("no")
    for number in (1, 2):
        with pytest.raises(ToolsetUnavailable):
            await made.effects.perform(step, Attempt(number=number, history=after(number - 1)))
    remote.away = None
    result = await made.effects.perform(step, Attempt(number=3, history=after(2)))
    assert (said(result), remote.paid) == ({"result": "paid"}, [5])
