"""Steps that commit their own event."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from durable_adk.activities.commit import early_commit
from durable_adk.activities.dependencies import Dependencies
from durable_adk.activities.effects import EffectPerformer
from durable_adk.agents import LlmAgent
from durable_adk.apps import App, AppRegistry
from durable_adk.attempt_history import AttemptHistory
from durable_adk.conversation.tool_responses import error_response, failure_text, merge_responses
from durable_adk.errors import LeaseLostError, StoreUnavailableError
from durable_adk.events import Event
from durable_adk.models import ScriptedModel
from durable_adk.sessions import InMemorySessionService, SessionKey, Status
from durable_adk.sessions.state import without_temp
from durable_adk.wire.effect import Attempt
from durable_adk.wire.manifest import HandOver
from durable_adk.wire.messages import user_content
from durable_adk.wire.steps import (
    CommitStep,
    EarlyCommit,
    ModelStep,
    OpenStep,
    StepResult,
    ToolStep,
)
from tests.support.scripts import call, calls

KEY = SessionKey("app", "u", "s")


class Runs:
    """Effects over an empty session, an open invocation, and steps for it."""

    def __init__(self, replies: list[Any], **fields: Any) -> None:
        self.runs: list[str] = []
        self.transfer: str | None = None
        self.fails = False
        self.fails_after = False
        self.replaced_by: Callable[[], Awaitable[Any]] | None = None
        """The next attempt, which runs while this one does."""

        async def charge(tool_context: Any) -> str:
            """Charge the card."""
            self.runs.append(tool_context.idempotency_key)
            tool_context.actions.transfer_to_agent = self.transfer
            if self.replaced_by is not None:
                successor, self.replaced_by, self.fails = self.replaced_by, None, False
                await successor()
                self.fails = self.fails_after
            if self.fails:
                raise RuntimeError("declined")
            return "charged"

        self.model = ScriptedModel(replies=replies)
        agent = LlmAgent(name="a", model=self.model, tools=[charge], **fields)
        self.sessions = InMemorySessionService()
        registry = AppRegistry([App(name="app", root_agent=agent)])
        self.effects = EffectPerformer(Dependencies(registry=registry, sessions=self.sessions))

    async def open(self) -> EarlyCommit:
        """Open invocation e-1; the grant for its steps."""
        step = OpenStep(
            key=KEY, invocation_id="e-1", lease_owner="h", event_id="e-1.0", timestamp=1.0,
            message=user_content("hi"), create_session=True,
        )  # fmt: skip
        opened = await self.effects.perform(step)
        return EarlyCommit(epoch=opened.record.epoch, closes=True)

    def step(
        self, event_id: str, revision: int, early_commit: EarlyCommit | None
    ) -> dict[str, Any]:
        """The fields of a step."""
        return {
            "key": KEY, "invocation_id": "e-1", "revision": revision, "run_start": 1, "agent": "a",
            "event_id": event_id, "attempt_timeout": 10, "early_commit": early_commit,
        }  # fmt: skip

    def commit(self, result: StepResult, early_commit: EarlyCommit) -> CommitStep:
        """The loop's commit of what a step has left to it."""
        assert result.event is not None
        event = result.event.model_copy(deep=True)
        event.actions.state_delta = without_temp(event.actions.state_delta)
        return CommitStep(key=KEY, invocation_id="e-1", epoch=early_commit.epoch, event=event)


async def test_an_answer_that_was_committed_is_not_asked_for_again() -> None:
    """I10: the attempt after a crash finds the event and the model is not called."""
    runs = Runs(["one", "another"])
    step = ModelStep(**runs.step("e-1.1", 1, await runs.open()))
    first = await runs.effects.perform(step)
    again = await runs.effects.perform(step, Attempt(number=2))
    assert len(runs.model.requests) == 1
    assert (again.seq, again.closed, again.model_called) == (2, True, True)
    assert again.event is not None
    assert first.event is not None
    assert again.event.to_json() == first.event.to_json()


@pytest.mark.parametrize("closes", [True, False])
async def test_a_callback_that_hands_over_has_the_answer_found_again(*, closes: bool) -> None:
    """I10, F5: the loop commits it, as whom it hands over to is in no event."""

    def before(callback_context: Any, llm_request: Any) -> None:
        del llm_request
        callback_context.actions.transfer_to_agent = "other"

    runs = Runs(["one", "another"], before_model_callback=before)
    early_commit = await runs.open()
    early_commit.closes = closes
    step = ModelStep(**runs.step("e-1.1", 1, early_commit))
    first = await runs.effects.perform(step)
    again = await runs.effects.perform(step, Attempt(number=2))
    assert (first.seq, again.seq, again.closed) == (None, None, False)
    assert first.transfer == again.transfer == HandOver(name="other")
    assert again.event == first.event
    assert len(runs.model.requests) == 1


async def test_a_tool_whose_response_was_committed_is_not_run_again() -> None:
    """I8: the same for a tool's effect."""
    runs = Runs([call("charge"), "done"])
    early_commit = await runs.open()
    asked = await runs.effects.perform(ModelStep(**runs.step("e-1.1", 1, early_commit)))
    assert asked.event is not None
    call_id = asked.event.get_function_calls()[0].id or ""
    step = ToolStep(**runs.step("e-1.2", 2, early_commit), call_id=call_id, tool="charge")
    first = await runs.effects.perform(step)
    again = await runs.effects.perform(step, Attempt(number=2))
    assert len(runs.runs) == 1
    assert (first.seq, again.seq) == (3, 3)


async def test_a_first_attempt_does_nothing_that_is_stored() -> None:
    """F38: an engine that was restored takes for the first what is not; the store knows better.

    Of an invocation that has ended nothing is begun at all.
    """
    runs = Runs([call("charge"), "done"])
    early_commit = await runs.open()
    asking = ModelStep(**runs.step("e-1.1", 1, early_commit))
    asked = await runs.effects.perform(asking)
    again = await runs.effects.perform(asking)
    assert len(runs.model.requests) == 1
    assert (asked.seq, again.seq, again.event) == (2, 2, asked.event)
    assert asked.event is not None
    call_id = asked.event.get_function_calls()[0].id or ""
    tool = {"call_id": call_id, "tool": "charge"}
    await runs.effects.perform(ToolStep(**runs.step("e-1.2", 2, early_commit), **tool))
    await runs.effects.perform(ModelStep(**runs.step("e-1.3", 3, early_commit)))
    with pytest.raises(LeaseLostError, match="has ended"):
        await runs.effects.perform(ToolStep(**runs.step("e-1.x", 2, early_commit), **tool))
    assert len(runs.runs) == 1


@pytest.mark.parametrize("custom", [False, True])
async def test_what_the_loop_has_stored_is_not_done_again_though_nothing_was_noted(
    monkeypatch: pytest.MonkeyPatch, *, custom: bool
) -> None:
    """I8, I10: a store that was away when the answer came cost the note, and a reset the loop."""
    monkeypatch.setattr("durable_adk.activities.commit.plan.OUTCOME_TIMEOUT", 0.0)
    runs = Runs([call("charge"), "done"])
    early_commit = await runs.open()
    monkeypatch.setattr(Dependencies, "changes_events", lambda *_: custom)

    async def refuse(*_: Any, **__: Any) -> None:
        raise StoreUnavailableError

    monkeypatch.setattr(runs.sessions, "note", refuse)
    asking = ModelStep(**runs.step("e-1.1", 1, None))
    asked = await runs.effects.perform(asking)
    await store(runs, asked.event, early_commit, 1)
    again = await runs.effects.perform(asking)
    assert len(runs.model.requests) == 1
    assert (again.seq, again.closed, again.event) == (2, False, asked.event)
    assert asked.event is not None
    call_id = asked.event.get_function_calls()[0].id or ""
    running = ToolStep(**runs.step("e-1.2", 2, None), call_id=call_id, tool="charge")
    ran = await runs.effects.perform(running)
    await store(runs, ran.event, early_commit, 2)
    assert (await runs.effects.perform(running)).event == ran.event
    assert len(runs.runs) == 1


async def test_a_lane_finds_what_it_has_stored_before_what_another_one_has() -> None:
    """I10: begun again, lanes come to their steps in another order, so a loop may know of more."""
    runs = Runs(["one", "another"])
    early_commit = await runs.open()
    asking = ModelStep(**runs.step("e-1.0.1", 1, None), branch="both.left")
    asked = await runs.effects.perform(asking)
    await store(runs, asked.event, early_commit, 1)
    other = Event(id="e-1.1.1", author="right", branch="both.right", invocation_id="e-1")
    await store(runs, other, early_commit, 2)
    again = await runs.effects.perform(asking.model_copy(update={"revision": 3}))
    assert len(runs.model.requests) == 1
    assert again.event == asked.event


async def test_a_note_is_known_by_a_stored_event_into_which_state_was_merged() -> None:
    """I10: the store appended to the list, so the two differ, and only the note has `temp:`."""

    def note(callback_context: Any, llm_request: Any) -> None:
        del llm_request
        callback_context.state["log"] = [*callback_context.state.get("log", []), "mine"]
        callback_context.state["temp:note"] = "kept"

    runs = Runs(["one"], before_model_callback=note)
    early_commit = await runs.open()
    asking = ModelStep(**runs.step("e-1.1", 1, None) | {"branch": "both.left"})
    asked = await runs.effects.perform(asking)
    other = Event(id="e-1.2", author="right", branch="both.right", invocation_id="e-1")
    other.actions.state_delta["log"] = ["other"]
    await store(runs, other, early_commit, 1)
    await runs.effects.perform(runs.commit(asked, early_commit))
    found = await runs.sessions.find_event(KEY, "e-1.1")
    assert found is not None
    assert found.event.actions.state_delta == {"log": ["other", "mine"]}
    again = await runs.effects.perform(asking)
    assert again.event == asked.event
    assert len(runs.model.requests) == 1


async def test_of_two_attempts_the_one_that_was_reported_stands(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """I10: the other one was recorded, as the store was away for the first; after a reset, too."""
    runs = Runs(["one", "another"])
    early_commit = await runs.open()
    asking = ModelStep(**runs.step("e-1.1", 1, None))

    async def refuse(*_: Any, **__: Any) -> None:
        raise StoreUnavailableError

    with monkeypatch.context() as away:
        away.setattr(runs.sessions, "note", refuse)
        reported = await runs.effects.perform(asking)
    monkeypatch.setattr(runs.model, "replies", ["another"])
    await runs.effects.perform(asking)
    await store(runs, reported.event, early_commit, 1)
    again = await runs.effects.perform(asking)
    assert (again.seq, again.event) == (2, reported.event)


async def test_the_responses_of_several_calls_are_no_call_s_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """I9: what is stored under the event of the first is the answer to all of them."""
    runs = Runs([calls(("charge", {}), ("charge", {})), "done"])
    early_commit = await runs.open()

    async def refuse(*_: Any, **__: Any) -> None:
        raise StoreUnavailableError

    monkeypatch.setattr(runs.sessions, "note", refuse)
    asked = await runs.effects.perform(ModelStep(**runs.step("e-1.1", 1, early_commit)))
    assert asked.event is not None
    names = [call.id or "" for call in asked.event.get_function_calls()]
    steps = [ToolStep(**runs.step("e-1.2", 2, None), call_id=name, tool="charge") for name in names]
    results = [await runs.effects.perform(step) for step in steps]
    events = [result.event for result in results if result.event]
    merged = merge_responses(events, event_id="e-1.2")
    await store(runs, merged, early_commit, 2)
    (again,) = (await runs.effects.perform(steps[0])).event.get_function_responses()  # type: ignore[union-attr] # it has one
    assert again.id == names[0]


@pytest.mark.parametrize("granted", [True, False])
async def test_a_tool_that_has_failed_fails_again_after_a_reset(*, granted: bool) -> None:
    """FLW-46, I10: what the loop has stored is its response; the invocation ends with its error."""
    runs = Runs([call("charge"), "done"])
    runs.fails = True
    early_commit = await runs.open()
    asked = await runs.effects.perform(ModelStep(**runs.step("e-1.1", 1, early_commit)))
    assert asked.event is not None
    call_id = asked.event.get_function_calls()[0].id or ""
    own = early_commit if granted else None
    running = ToolStep(**runs.step("e-1.2", 2, own), call_id=call_id, tool="charge")
    failed = await runs.effects.perform(running)
    assert failed.error is not None
    response = error_response(
        call_id, "charge", failure_text("charge", failed.error), author="a", branch=None
    )
    response.id, response.invocation_id = "e-1.2", "e-1"
    await store(runs, response, early_commit, 2)
    again = await runs.effects.perform(running)
    assert (again.error, again.event, len(runs.runs)) == (failed.error, None, 1)


async def test_a_tool_whose_failure_was_lost_has_succeeded_if_that_is_stored() -> None:
    """I10: its worker died before it had reported the failure, and the next attempt succeeded."""
    runs = Runs([call("charge"), "done"])
    runs.fails = True
    early_commit = await runs.open()
    asked = await runs.effects.perform(ModelStep(**runs.step("e-1.1", 1, early_commit)))
    assert asked.event is not None
    call_id = asked.event.get_function_calls()[0].id or ""
    running = ToolStep(**runs.step("e-1.2", 2, early_commit), call_id=call_id, tool="charge")
    assert (await runs.effects.perform(running)).error is not None
    runs.fails = False
    done = await runs.effects.perform(running, Attempt(number=2))
    again = await runs.effects.perform(running)
    assert (again.error, again.event, again.seq) == (None, done.event, 3)


@pytest.mark.parametrize("granted", [True, False])
async def test_a_late_failure_does_not_replace_a_success(*, granted: bool) -> None:
    """I10: the attempt was taken for dead, and its time was over when its machine woke up."""
    runs = Runs([call("charge"), "done"])
    early_commit = await runs.open()
    asked = await runs.effects.perform(ModelStep(**runs.step("e-1.1", 1, early_commit)))
    assert asked.event is not None
    call_id = asked.event.get_function_calls()[0].id or ""
    own = early_commit if granted else None
    running = ToolStep(**runs.step("e-1.2", 2, own), call_id=call_id, tool="charge")

    async def fail_first() -> None:
        runs.fails = True
        assert (await runs.effects.perform(running)).error is not None

    runs.replaced_by = fail_first
    done = await runs.effects.perform(running, Attempt(number=2))
    assert said(done) == {"result": "charged"}


async def test_a_failure_counts_for_nothing_once_a_success_is_stored() -> None:
    """I10: an attempt that was taken for dead failed after the next one had committed."""
    runs = Runs([call("charge"), "done"])
    early_commit = await runs.open()
    asked = await runs.effects.perform(ModelStep(**runs.step("e-1.1", 1, early_commit)))
    assert asked.event is not None
    call_id = asked.event.get_function_calls()[0].id or ""
    running = ToolStep(**runs.step("e-1.2", 2, early_commit), call_id=call_id, tool="charge")
    runs.replaced_by = lambda: runs.effects.perform(running, Attempt(number=2))
    runs.fails = runs.fails_after = True
    await runs.effects.perform(running)
    again = await runs.effects.perform(running)
    assert (again.error, said(again), again.seq) == (None, {"result": "charged"}, 3)
    assert len(runs.runs) == 2


def said(result: StepResult) -> dict[str, Any] | None:
    """The response of the result's event."""
    assert result.event is not None
    return result.event.get_function_responses()[0].response


async def store(runs: Runs, event: Event | None, early_commit: EarlyCommit, revision: int) -> None:
    """What the loop does with an event that no step may commit."""
    assert event is not None
    await runs.effects.perform(
        CommitStep(
            key=KEY, invocation_id="e-1", epoch=early_commit.epoch, event=event, revision=revision
        )
    )


async def test_two_attempts_at_once_agree_on_one_answer() -> None:
    """F8: a zombie that was not dead and its successor: the first commit counts for both."""
    runs = Runs([lambda request: f"answer {len(runs.model.requests)}"])
    step = ModelStep(**runs.step("e-1.1", 1, await runs.open()))
    results = await asyncio.gather(runs.effects.perform(step), runs.effects.perform(step))
    assert len(runs.model.requests) == 2
    texts = {result.event.text for result in results if result.event}
    assert len(texts) == 1
    assert len(await runs.sessions.read_events(KEY)) == 2


async def test_a_store_that_is_away_does_not_part_two_attempts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """F8, I1: else the loop would commit the second one's answer, where another is stored."""
    runs = Runs([lambda request: f"answer {len(runs.model.requests)}"])
    step = ModelStep(**runs.step("e-1.1", 1, await runs.open()))
    commit = runs.sessions.commit_event

    async def away(*_: Any, **__: Any) -> int:
        monkeypatch.setattr(runs.sessions, "commit_event", commit)
        await runs.effects.perform(step)  # the first attempt, which was taken for dead
        raise StoreUnavailableError

    monkeypatch.setattr(runs.sessions, "commit_event", away)
    result = await runs.effects.perform(step, Attempt(number=2))
    assert (result.seq, result.event and result.event.text) == (2, "answer 2")


async def test_an_attempt_that_leaves_its_event_to_the_loop_looks_whether_another_has_not() -> None:
    """The same, where what the second attempt has made is no event that says it all."""
    calls: list[str] = []

    async def note(callback_context: Any, llm_request: Any) -> None:
        calls.append("")
        if len(calls) == 1:
            await runs.effects.perform(step)  # the first attempt, which was taken for dead
            callback_context.state["temp:note"] = "kept"

    runs = Runs([lambda request: f"answer {len(runs.model.requests)}"], before_model_callback=note)
    step = ModelStep(**runs.step("e-1.1", 1, await runs.open()))
    result = await runs.effects.perform(step, Attempt(number=2))
    assert (result.seq, result.event and result.event.text) == (2, "answer 1")


@pytest.mark.parametrize("wakes", ["before the loop has committed", "afterwards"])
async def test_once_a_result_is_left_to_the_loop_no_earlier_attempt_commits(wakes: str) -> None:
    """F8, I1: else the loop's commit would meet another event, and end a run that is in order."""
    calls: list[str] = []
    results: list[Any] = []

    async def note(callback_context: Any, llm_request: Any) -> None:
        calls.append("")
        if len(calls) == 1:  # the first attempt, whose worker is frozen here and taken for dead
            results.append(await runs.effects.perform(step, Attempt(number=2)))
            if wakes == "afterwards":
                await runs.effects.perform(runs.commit(results[0], early_commit))
        else:
            callback_context.state["temp:note"] = "kept"

    runs = Runs(["one", "another"], before_model_callback=note)
    early_commit = await runs.open()
    step = ModelStep(**runs.step("e-1.1", 1, early_commit))
    await runs.effects.perform(step)
    assert results[0].seq is None
    assert await runs.effects.perform(runs.commit(results[0], early_commit)) == 2
    assert [item.event.text for item in await runs.sessions.read_events(KEY)] == ["hi", "one"]
    assert len(runs.model.requests) == 2


async def test_what_a_third_attempt_makes_of_a_reserved_event_is_the_loops() -> None:
    """I1: the second one left its result to the loop and died before it had reported it."""

    def note(callback_context: Any, llm_request: Any) -> None:
        if not runs.model.requests:
            callback_context.state["temp:note"] = "kept"

    runs = Runs(["one"], before_model_callback=note)
    early_commit = await runs.open()
    step = ModelStep(**runs.step("e-1.1", 1, early_commit))
    await runs.effects.perform(step, Attempt(number=2))
    result = await runs.effects.perform(step, Attempt(number=3))
    assert (result.seq, result.event and result.event.text) == (None, "one")
    assert await runs.effects.perform(runs.commit(result, early_commit)) == 2


async def test_a_result_is_not_left_to_the_loop_while_the_store_cannot_reserve_its_event(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """I1: the step is retried, rather than its run be ended by who may still be alive.

    Those that have reported their end are not; and then nothing that was made is thrown away.
    """
    monkeypatch.setattr(early_commit, "STORE_TIMEOUT", 0.0)

    async def away(*_: Any, **__: Any) -> None:
        raise StoreUnavailableError

    def note(callback_context: Any, llm_request: Any) -> None:
        callback_context.state["temp:note"] = "kept"

    runs = Runs(["one"], before_model_callback=note)
    step = ModelStep(**runs.step("e-1.1", 1, await runs.open()))
    monkeypatch.setattr(runs.sessions, "reserve_event", away)
    assert (await runs.effects.perform(step)).seq is None
    with pytest.raises(StoreUnavailableError):
        await runs.effects.perform(step, Attempt(number=2))
    told = AttemptHistory().after(1, excused=True)
    assert (await runs.effects.perform(step, Attempt(number=2, history=told))).seq is None


async def test_a_tool_that_names_an_agent_who_is_not_there_has_one_response() -> None:
    """I1, I8: what an attempt would not find again, it does not commit itself."""
    runs = Runs([call("charge")])
    early_commit = await runs.open()
    asked = await runs.effects.perform(ModelStep(**runs.step("e-1.1", 1, early_commit)))
    assert asked.event is not None
    runs.transfer = "nobody"
    call_id = asked.event.get_function_calls()[0].id or ""
    step = ToolStep(**runs.step("e-1.2", 2, early_commit), call_id=call_id, tool="charge")
    assert (await runs.effects.perform(step)).seq is None


async def test_a_final_text_closes_the_invocation_with_it() -> None:
    """D4: one transaction: nobody sees the answer and an invocation that still holds the lease."""
    runs = Runs(["final"])
    result = await runs.effects.perform(ModelStep(**runs.step("e-1.1", 1, await runs.open())))
    assert result.closed
    record = await runs.sessions.get_invocation(KEY, "e-1")
    assert record is not None
    assert (record.status, record.end_seq) == (Status.COMPLETED, 2)
    assert await runs.sessions.active_invocation(KEY) is None


async def test_a_call_does_not_close_the_invocation() -> None:
    """The run continues after it."""
    runs = Runs([call("charge"), "done"])
    result = await runs.effects.perform(ModelStep(**runs.step("e-1.1", 1, await runs.open())))
    assert (result.seq, result.closed) == (2, False)


@pytest.mark.parametrize("key", ["temp:note", "note"])
async def test_what_is_not_in_the_event_goes_through_the_loop(key: str) -> None:
    """TRAP-7: `temp:` keys are in no stored event, so an attempt that finds it would lose them."""

    def note(callback_context: Any, llm_request: Any) -> None:
        callback_context.state[key] = "kept"

    runs = Runs(["text"], before_model_callback=note)
    result = await runs.effects.perform(ModelStep(**runs.step("e-1.1", 1, await runs.open())))
    assert (result.seq is None) == key.startswith("temp:")
    assert result.event is not None
    assert result.event.actions.state_delta == {key: "kept"}


async def test_without_leave_nothing_is_committed() -> None:
    """A custom agent may still change or drop the event."""
    runs = Runs(["text"])
    await runs.open()
    result = await runs.effects.perform(ModelStep(**runs.step("e-1.1", 1, None)))
    assert result.seq is None
    assert len(await runs.sessions.read_events(KEY)) == 1


async def test_a_store_that_is_away_does_not_cost_the_answer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """D4: the answer goes back to the loop, which commits it later; the model is asked once."""
    runs = Runs(["text"])
    early_commit = await runs.open()

    async def away(*_: Any, **__: Any) -> int:
        raise StoreUnavailableError

    monkeypatch.setattr(runs.sessions, "commit_event", away)
    result = await runs.effects.perform(ModelStep(**runs.step("e-1.1", 1, early_commit)))
    assert result.seq is None
    assert result.event is not None
    monkeypatch.undo()
    commit = CommitStep(key=KEY, invocation_id="e-1", epoch=early_commit.epoch, event=result.event)
    assert await runs.effects.perform(commit) == 2
    assert len(runs.model.requests) == 1
