"""How often a call of a tool is run, under each contract."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest

from durable_adk.activities.tool.run import RetryLater
from durable_adk.context.activity import ToolContext
from durable_adk.errors import LeaseLostError, StoreUnavailableError
from durable_adk.sessions import Status
from durable_adk.tools import BaseToolset, FunctionTool, RetryConfig, ToolContract
from durable_adk.tools.reconcile import NOT_RUN
from durable_adk.wire.effect import Attempt
from durable_adk.wire.manifest import ToolSpec
from durable_adk.wire.steps import StepResult, ToolStep
from durable_adk.wire.tool_contract import REPEATABLE
from tests.support.steps import INVOCATION, KEY, Steps, called, said
from tests.support.waiting import until

ONCE = ToolContract.AT_MOST_ONCE


class Bank:
    """Charges cards; the first run hangs, so that an attempt can be lost in it."""

    def __init__(self, *, hanging: int = 1) -> None:
        self.hanging = hanging
        self.keys: list[str] = []

    async def charge(self, amount: int, tool_context: ToolContext) -> str:
        """Charge the card."""
        self.keys.append(tool_context.idempotency_key)
        tool_context.state["charged"] = amount
        if len(self.keys) <= self.hanging:
            await asyncio.Event().wait()
        return f"charge {len(self.keys)}"


def steps(bank: Bank, *, options: dict[str, Any] | None = None, **fields: Any) -> Steps:
    """An agent whose model charges 5, over a tool with these options."""
    tool = FunctionTool(bank.charge, **options or {})
    return Steps(called("charge", amount=5), tools=[tool], **fields)


async def lost(work: Any, when: Callable[[], object]) -> None:
    """Have an attempt go under as soon as something is so."""
    task = asyncio.ensure_future(work)
    await until(lambda: when() or task.done())
    assert not task.done(), task.result()
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task


async def after_a_loss(bank: Bank, options: dict[str, Any]) -> StepResult:
    """What the attempt history that follows one which was lost in the tool."""
    effects = (made := steps(bank, options=options)).effects
    step = await made.tool_step()
    await lost(effects.perform(step, Attempt(number=1)), lambda: bank.keys)
    return await effects.perform(step, Attempt(number=2))


@pytest.mark.parametrize("contract", [name for name in ToolContract if name is not ONCE])
async def test_a_lost_run_is_repeated_under_the_same_key(contract: ToolContract) -> None:
    """D7, F9: all but at-most-once tools."""
    bank = Bank()
    assert said(await after_a_loss(bank, {"contract": contract})) == {"result": "charge 2"}
    assert len(bank.keys) == 2
    assert len(set(bank.keys)) == 1


async def test_a_lost_run_of_an_at_most_once_tool_is_not_repeated() -> None:
    """I8: the model is told that the outcome is unknown, in an event of the log."""
    bank = Bank()
    result = await after_a_loss(bank, {"contract": ONCE})
    assert len(bank.keys) == 1
    assert said(result)["outcome"] == "unknown"
    assert result.seq == 3


async def test_an_attempt_that_was_lost_before_the_tool_lets_the_next_one_run_it() -> None:
    """F9: only what may have begun counts."""
    bank = Bank(hanging=0)
    entered: list[bool] = []

    async def hold_the_first(**_: Any) -> None:
        entered.append(True)
        if len(entered) == 1:
            await asyncio.Event().wait()

    made = steps(bank, options={"contract": ONCE}, before_tool_callback=hold_the_first)
    step = await made.tool_step()
    await lost(made.effects.perform(step, Attempt(number=1)), lambda: entered)
    assert said(await made.effects.perform(step, Attempt(number=2))) == {"result": "charge 1"}


async def test_of_two_attempts_at_once_one_runs_an_at_most_once_tool() -> None:
    """F8: a frozen worker and its successor, whoever is first."""
    bank = Bank(hanging=0)
    made = steps(bank, options={"contract": ONCE})
    step = await made.tool_step()
    results = await asyncio.gather(*(made.effects.perform(step, Attempt(number=n)) for n in (1, 2)))
    assert len(bank.keys) == 1
    assert said(results[0]) == said(results[1])


@pytest.mark.parametrize(
    ("finding", "response", "runs"),
    [
        ({"id": 7}, {"id": 7}, 1),
        (None, "unknown", 1),
        (ValueError("no idea"), "unknown", 1),
        (NOT_RUN, {"result": "charge 2"}, 2),
    ],
)
async def test_a_tool_may_know_what_became_of_a_lost_run(
    finding: Any, response: Any, runs: int
) -> None:
    """I8: its result, nothing, or that there was no effect; an error is nothing."""
    seen: list[Any] = []

    async def reconcile(args: dict[str, Any], tool_context: ToolContext) -> Any:
        seen.append((args, tool_context.idempotency_key))
        if isinstance(finding, Exception):
            raise finding
        return finding

    bank = Bank()
    answer = said(await after_a_loss(bank, {"contract": ONCE, "reconcile": reconcile}))
    assert answer.get("outcome", answer) == response
    assert len(bank.keys) == runs
    assert seen == [({"amount": 5}, bank.keys[0])]


async def test_each_lost_run_is_asked_about_before_there_is_another() -> None:
    """I8: that the first had no effect says nothing of the second."""
    asked: list[str] = []

    def reconcile(args: dict[str, Any], tool_context: ToolContext) -> Any:
        asked.append(tool_context.function_call_id)
        return NOT_RUN

    bank = Bank(hanging=2)
    made = steps(bank, options={"contract": ONCE, "reconcile": reconcile})
    step = await made.tool_step()
    await lost(made.effects.perform(step, Attempt(number=1)), lambda: len(bank.keys) == 1)
    await lost(made.effects.perform(step, Attempt(number=2)), lambda: len(bank.keys) == 2)
    assert len(asked) == 1
    assert said(await made.effects.perform(step, Attempt(number=3))) == {"result": "charge 3"}
    assert len(asked) == 3


async def test_of_attempts_that_find_out_the_same_at_once_one_goes_on() -> None:
    """F8: both hear that the lost run had no effect; one run follows it."""
    told = iter([NOT_RUN, NOT_RUN, None])
    bank = Bank(hanging=1)
    made = steps(bank, options={"contract": ONCE, "reconcile": lambda **_: next(told)})
    step = await made.tool_step()
    await lost(made.effects.perform(step, Attempt(number=1)), lambda: bank.keys)
    await asyncio.gather(*(made.effects.perform(step, Attempt(number=n)) for n in (2, 3)))
    assert len(bank.keys) == 2
    assert next(told, "used up") == "used up"


async def test_an_at_most_once_tool_is_not_run_while_the_store_is_away(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """I8: nobody could write down that it has begun; the attempt is repeated later."""
    bank = Bank(hanging=0)
    made = steps(bank, options={"contract": ONCE})
    step = await made.tool_step()

    async def away(*_: Any, **__: Any) -> str:
        raise StoreUnavailableError

    with monkeypatch.context() as patch:
        patch.setattr(made.sessions, "note", away)
        patch.setattr("durable_adk.activities.tool.contract.STORE_TIMEOUT", 0.1)
        with pytest.raises(StoreUnavailableError):
            await made.effects.perform(step, Attempt(number=1))
        hurried = step.model_copy(update={"attempt_timeout": 0.05})
        with pytest.raises(StoreUnavailableError):
            await made.effects.perform(hurried, Attempt(number=1))
    assert bank.keys == []
    assert said(await made.effects.perform(step, Attempt(number=2))) == {"result": "charge 1"}


@pytest.mark.parametrize("contract", [name for name in ToolContract if name is not ONCE])
async def test_a_tool_whose_store_is_away_is_run_again(contract: ToolContract) -> None:
    """I8: under the same key, as after a lost worker; no hook and no retry policy sees it."""
    heard: list[Exception] = []
    keys: list[str] = []

    def recall(tool_context: ToolContext) -> str:
        keys.append(tool_context.idempotency_key)
        if len(keys) == 1:
            raise StoreUnavailableError("away")
        return "recalled"

    def hear(error: Exception, **_: Any) -> None:
        heard.append(error)

    retry = {"retry": RetryConfig(max_attempts=2)} if contract in REPEATABLE else {}
    tool = FunctionTool(recall, contract=contract, **retry)
    made = Steps(called("recall"), tools=[tool], on_tool_error_callback=hear)
    step = await made.tool_step()
    with pytest.raises(StoreUnavailableError, match="away"):
        await made.effects.perform(step, Attempt(number=1))
    assert said(await made.effects.perform(step, Attempt(number=2))) == {"result": "recalled"}
    assert len(set(keys)) == 1
    assert heard == []


async def test_what_an_at_most_once_tool_raises_is_final_though_a_store_was_away() -> None:
    """I8: it may have taken effect, so it is not run for a second time; its hooks hear of it."""
    runs: list[int] = []

    def recall() -> str:
        runs.append(1)
        raise StoreUnavailableError("away")

    made = Steps(called("recall"), tools=[FunctionTool(recall, contract=ONCE)])
    result = await made.effects.perform(await made.tool_step(), Attempt(number=1))
    assert result.error is not None
    assert result.error["type"] == "StoreUnavailableError"
    assert len(runs) == 1


@pytest.mark.parametrize("contract", [ToolContract.IDEMPOTENT, ONCE])
@pytest.mark.parametrize("hook", ["before_tool_callback", "after_tool_callback"])
async def test_a_callback_whose_store_is_away_is_called_again(
    hook: str, contract: ToolContract
) -> None:
    """I8, CB-12: and the tool runs once, as its result was noted before the callback after it."""
    bank = Bank(hanging=0)
    calls: list[int] = []

    def look(**_: Any) -> None:
        calls.append(1)
        if len(calls) == 1:
            raise StoreUnavailableError("away")

    made = steps(bank, options={"contract": contract}, **{hook: look})
    step = await made.tool_step()
    with pytest.raises(StoreUnavailableError):
        await made.effects.perform(step, Attempt(number=1))
    assert said(await made.effects.perform(step, Attempt(number=2))) == {"result": "charge 1"}
    assert len(bank.keys) == 1


async def test_a_lost_acknowledgement_does_not_make_a_run_look_like_another() -> None:
    """TRAP-11: the note was written, the store did not say so; it is this attempt's own."""
    bank = Bank(hanging=0)
    made = steps(bank, options={"contract": ONCE})
    step = await made.tool_step()
    note, failed = made.sessions.note, []

    async def unacknowledged(*args: Any, **kwargs: Any) -> str:
        stored = await note(*args, **kwargs)
        if not failed:
            failed.append(True)
            raise StoreUnavailableError
        return stored

    made.sessions.note = unacknowledged  # type: ignore[method-assign]
    assert said(await made.effects.perform(step, Attempt(number=1))) == {"result": "charge 1"}
    assert failed


async def test_the_timeout_of_an_at_most_once_tool_is_an_unknown_outcome() -> None:
    """F11: it may still run, so the model learns that; other tools fail the run."""
    results: dict[ToolContract, StepResult] = {}
    for contract in (ONCE, ToolContract.AT_LEAST_ONCE):
        made = steps(Bank(), options={"contract": contract, "timeout": 0.1})
        step = await made.tool_step(attempt_timeout=0.1)
        results[contract] = await made.effects.perform(step, Attempt(number=1))
    assert said(results[ONCE])["outcome"] == "unknown"
    assert "0.1 s" in said(results[ONCE])["error"]
    assert (results[ToolContract.AT_LEAST_ONCE].error or {})["class"] == "ToolTimeoutError"


async def test_a_worker_that_wakes_up_after_the_end_does_not_run_an_at_most_once_tool() -> None:
    """F8, I8: the notes of a closed invocation are gone; that must not look like a first run."""
    bank = Bank(hanging=0)
    made = steps(bank, options={"contract": ONCE})
    step = await made.tool_step()
    await made.sessions.close_invocation(
        KEY, invocation_id=INVOCATION, epoch=step.early_commit.epoch, status=Status.CANCELLED
    )
    with pytest.raises(LeaseLostError):
        await made.effects.perform(step, Attempt(number=1))
    assert bank.keys == []


async def test_a_call_that_has_to_be_approved_has_not_begun() -> None:
    """TOL-61: an attempt that is lost while it asks does not leave the outcome unknown."""
    bank = Bank(hanging=0)
    made = steps(bank, options={"contract": ONCE, "require_confirmation": True})
    step = await made.tool_step()
    for attempt in (1, 2):
        assert (
            "requires confirmation"
            in said(await made.effects.perform(step, Attempt(number=attempt)))["error"]
        )
    assert await made.notes("begun") == {}
    assert bank.keys == []


async def test_a_rule_that_ends_the_process_fails_the_run() -> None:
    """F12: whether a call has to be approved is asked in user code, before the tool is run."""

    def rule(amount: int) -> bool:
        raise SystemExit(amount)

    bank = Bank(hanging=0)
    made = steps(bank, options={"contract": ONCE, "require_confirmation": rule})
    result = await made.effects.perform(await made.tool_step(), Attempt(number=1))
    assert "SystemExit" in (result.error or {})["message"]
    assert bank.keys == []


async def test_the_contract_of_the_opening_holds() -> None:
    """D6: a deploy changes no open invocation; a toolset's tool, unknown then, has its own."""
    bank = Bank()
    made = steps(bank)  # the code says at-least-once now
    step = await made.tool_step(spec=ToolSpec(contract=ONCE))
    await lost(made.effects.perform(step, Attempt(number=1)), lambda: bank.keys)
    assert said(await made.effects.perform(step, Attempt(number=2)))["outcome"] == "unknown"


async def test_a_toolsets_tool_has_its_own_contract() -> None:
    """TOL-28: it is in no manifest."""
    bank = Bank()

    class Bought(BaseToolset):
        async def get_tools(self, readonly_context: Any = None) -> list[Any]:
            return [FunctionTool(bank.charge, contract=ONCE)]

    made = Steps(called("charge", amount=5), tools=[Bought()])
    step = await made.tool_step()
    assert step.spec is None
    await lost(made.effects.perform(step, Attempt(number=1)), lambda: bank.keys)
    assert said(await made.effects.perform(step, Attempt(number=2)))["outcome"] == "unknown"


# ----- results that have arrived


def slow(first: list[bool]) -> Any:
    """A callback after the tool, in which the first attempt is lost."""

    async def wait(**_: Any) -> None:
        first.append(True)
        if len(first) == 1:
            await asyncio.Event().wait()

    return wait


@pytest.mark.parametrize("contract", [ToolContract.AT_LEAST_ONCE, ONCE])
async def test_a_result_that_has_arrived_is_found_again(contract: ToolContract) -> None:
    """I8, I10: lost between the tool and the commit; what the tool changed is there too."""
    bank, entered = Bank(hanging=0), []
    made = steps(bank, options={"contract": contract}, after_tool_callback=slow(entered))
    step = await made.tool_step()
    await lost(made.effects.perform(step, Attempt(number=1)), lambda: entered)
    result = await made.effects.perform(step, Attempt(number=2))
    assert said(result) == {"result": "charge 1"}
    assert result.event is not None
    assert result.event.actions.state_delta == {"charged": 5}
    assert (len(bank.keys), len(entered)) == (1, 2)


async def test_attempts_whose_results_differ_agree_on_the_first() -> None:
    """F8: without a grant the loop takes one of them; both say the same."""
    bank = Bank(hanging=0)
    made = steps(bank)
    step = await made.tool_step(granted=False)
    first = await made.effects.perform(step, Attempt(number=1))
    second = await made.effects.perform(step.model_copy(), Attempt(number=1))  # a zombie's
    assert len(bank.keys) == 2
    assert said(first) == said(second) == {"result": "charge 1"}


@pytest.mark.parametrize(
    ("options", "fields", "notes"),
    [
        ({}, {}, []),
        ({"contract": "pure"}, {"granted": False}, []),
        ({}, {"granted": False}, ["result"]),
        ({"contract": ONCE}, {}, ["begun"]),
        ({"contract": ONCE}, {"granted": False}, ["begun", "result"]),
    ],
)
async def test_only_what_is_needed_is_written_down(
    options: dict[str, Any], fields: dict[str, Any], notes: list[str]
) -> None:
    """The plain way costs no transaction more than before."""
    made = steps(Bank(hanging=0), options=options)
    step = await made.tool_step(**fields)
    made.sessions.calls.clear()
    await made.effects.perform(step, Attempt(number=1))
    assert made.sessions.calls["note"] == len(notes)
    if not notes:
        assert not made.sessions.calls
    for kind in notes:
        (name,) = await made.notes(kind)
        assert name.startswith("e-1.2." if kind == "result" else f"e-1.2/{step.call_id}")


# ----- what is raised


def flaky(failures: int, error: Exception) -> tuple[FunctionTool, list[int]]:
    """A pure tool that raises at first."""
    runs: list[int] = []

    def ask() -> str:
        """Ask."""
        runs.append(1)
        if len(runs) <= failures:
            raise error
        return "ok"

    retry = RetryConfig(max_attempts=3, initial_delay=0.01, exceptions=[OSError])
    return FunctionTool(ask, contract="pure", retry=retry), runs


async def test_what_a_pure_tool_raises_is_retried_as_it_says() -> None:
    """D7: with its own pauses, as long as there are attempts; the error hooks are asked last."""
    hooked: list[str] = []

    def on_error(error: Exception, **_: Any) -> None:
        hooked.append(str(error))

    tool, _ = flaky(9, ConnectionError("busy"))
    made = Steps(called("ask"), tools=[tool], on_tool_error_callback=on_error)
    step: ToolStep = await made.tool_step()
    for attempt, delay in ((1, 0.01), (2, 0.02)):
        with pytest.raises(RetryLater) as raised:
            await made.effects.perform(step, Attempt(number=attempt))
        assert raised.value.delay == delay
    assert hooked == []
    result = await made.effects.perform(step, Attempt(number=3))
    assert (result.error or {})["type"] == "ConnectionError"
    assert hooked == ["busy"]


@pytest.mark.parametrize(
    ("error", "runs"), [(ConnectionError("busy"), 3), (ValueError("wrong"), 1)]
)
async def test_in_process_too(error: Exception, runs: int) -> None:
    """D14: whoever counts no attempts has them counted; errors that are not named are final."""
    tool, made_runs = flaky(2, error)
    made = Steps(called("ask"), tools=[tool])
    result = await made.effects.perform(await made.tool_step())
    assert len(made_runs) == runs
    assert (result.event is not None) == (runs == 3)
