"""What is recorded of tool attempts without a result; those of models are in test_answers."""

import asyncio
from contextlib import suppress
from typing import Any

import pytest

from durable_adk.activities.tool.run import RetryLater
from durable_adk.attempt_history import NO_ATTEMPTS, AttemptHistory
from durable_adk.client.queries import read_attempts
from durable_adk.errors import StoreUnavailableError
from durable_adk.sessions.call_attempt import AttemptEnd, CallAttempt
from durable_adk.sessions.records import ATTEMPT
from durable_adk.tools import FunctionTool, RetryConfig
from durable_adk.wire.effect import Attempt
from durable_adk.wire.steps import ToolStep
from tests.support.steps import INVOCATION, KEY, Steps, called, said
from tests.support.waiting import PATIENCE

RETRY = RetryConfig(max_attempts=50, initial_delay=0.01, exceptions=[ConnectionError])


class Bank:
    """A tool that follows a script."""

    def __init__(self) -> None:
        self.raises: Exception | None = None
        self.hangs = False
        self.reached = asyncio.Event()

    async def pay(self) -> str:
        """Pay."""
        if self.raises is not None:
            raise self.raises
        if self.hangs:
            self.reached.set()
            await asyncio.Event().wait()
        return "paid"


def steps(bank: Bank, *, after: Any = None, **options: Any) -> Steps:
    """An agent whose model has the bank pay."""
    tools = [FunctionTool(bank.pay, **options)]
    return Steps(called("pay"), tools=tools, after_tool_callback=after)


async def found(made: Steps) -> list[CallAttempt]:
    """What is recorded."""
    return await read_attempts(made.sessions, KEY, INVOCATION)


async def attempt(
    made: Steps, step: ToolStep, number: int, history: AttemptHistory = NO_ATTEMPTS
) -> Any:
    """Make an attempt."""
    return await made.effects.perform(step, Attempt(number=number, history=history))


async def test_a_retried_error_of_a_tool_is_recorded_with_its_call() -> None:
    """D7: which attempt failed, of which call, when and why; no note for the one that succeeds."""
    bank = Bank()
    made = steps(bank, contract="idempotent", retry=RETRY)
    step = await made.tool_step()
    bank.raises = ConnectionError("the line is busy")
    with pytest.raises(RetryLater):
        await attempt(made, step, 1)
    bank.raises = None
    assert said(await attempt(made, step, 2, NO_ATTEMPTS.after(1))) == {"result": "paid"}
    [one] = await found(made)
    assert (one.event_id, one.tool, one.call_id) == (step.event_id, "pay", step.call_id)
    assert (one.attempt, one.ended, one.error_type) == (1, AttemptEnd.FAILED, "ConnectionError")
    assert one.error_message == "the line is busy"
    assert one.started is not None


async def test_a_tool_that_succeeds_at_once_costs_no_note() -> None:
    """The ordinary way reads and writes nothing more."""
    made = steps(Bank(), contract="pure")
    step = await made.tool_step()
    made.sessions.calls.clear()
    await attempt(made, step, 1)
    assert made.sessions.calls.total() == 0


@pytest.mark.parametrize("contract", ["idempotent", "at_most_once"])
async def test_a_lost_attempt_is_recorded_with_the_worker_that_the_history_names(
    contract: str,
) -> None:
    """I8, F12: attempt 2 failed and said so itself, and of attempt 1 nobody knows the worker."""
    made = steps(Bank(), contract=contract)
    step = await made.tool_step()
    await attempt(made, step, 4, NO_ATTEMPTS.after(2).signed(3, "17@host"))
    lost = [(one.attempt, one.ended, one.tool, one.worker) for one in await found(made)]
    assert lost == [
        (1, AttemptEnd.LOST, "pay", None),
        (3, AttemptEnd.LOST, "pay", "17@host"),
    ]


async def test_a_cancelled_tool_is_recorded() -> None:
    """CAN-1: also if its worker shuts down and another one runs it again."""
    bank = Bank()
    made = steps(bank)
    step = await made.tool_step()
    bank.hangs = True
    await cancelled(made, step, bank.reached)
    [one] = await found(made)
    assert (one.attempt, one.ended, one.tool) == (1, AttemptEnd.CANCELLED, "pay")


async def test_a_tool_that_is_cancelled_after_its_result_is_stored_is_not_recorded() -> None:
    """I10: its successor continues with the result, so that the tool was not run in vain."""
    bank = Bank()

    async def hang(**_: Any) -> None:
        bank.reached.set()
        await asyncio.Event().wait()

    made = steps(bank, after=hang)
    await cancelled(made, await made.tool_step(), bank.reached)
    assert await found(made) == []


async def cancelled(made: Steps, step: ToolStep, reached: asyncio.Event) -> None:
    """Cancel the first attempt when it has come somewhere."""
    task = asyncio.ensure_future(attempt(made, step, 1))
    await asyncio.wait_for(reached.wait(), PATIENCE)
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task


async def test_few_attempts_are_recorded_while_a_store_is_away() -> None:
    """I14: the notes stay with the session, so that hours of an outage leave a handful."""
    bank = Bank()
    made = steps(bank, contract="idempotent")
    step = await made.tool_step()
    bank.raises = StoreUnavailableError("artifacts are away")
    history = NO_ATTEMPTS
    for number in range(1, 20):
        with pytest.raises(StoreUnavailableError):
            await attempt(made, step, number, history)
        history = history.after(number, excused=True)
    told = [(one.attempt, one.ended) for one in await found(made)]
    assert told == [(number, AttemptEnd.FAILED) for number in (1, 2, 4, 8, 16)]


async def test_a_store_that_takes_no_note_stops_no_tool(monkeypatch: pytest.MonkeyPatch) -> None:
    """I11: a record is best effort."""
    made = steps(Bank(), contract="idempotent")
    step = await made.tool_step()

    async def away(*_: Any, **__: Any) -> str:
        raise StoreUnavailableError

    monkeypatch.setattr(made.sessions, "note", away)
    assert said(await attempt(made, step, 3)) == {"result": "paid"}


async def test_a_note_of_an_earlier_release_is_read() -> None:
    """D6: they recorded attempts at model calls only."""
    made = steps(Bank())
    await made.open()
    body = '{"eventId":"e-1.1","attempt":1,"ended":"failed","model":"m"}'
    place = {"invocation_id": INVOCATION, "kind": ATTEMPT, "name": "e-1.1.001", "body": body}
    await made.sessions.note(KEY, **place)
    expected = CallAttempt(event_id="e-1.1", attempt=1, ended=AttemptEnd.FAILED, model="m")
    assert await found(made) == [expected]
