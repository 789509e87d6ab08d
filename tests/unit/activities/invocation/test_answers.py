"""A model's answer that has arrived, and the attempts that had none."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import suppress
from typing import Any

import pytest
from google.genai import types
from pydantic import Field

from durable_adk.agents import RunConfig
from durable_adk.client.queries import read_attempts
from durable_adk.errors import (
    CallbackError,
    ModelError,
    ModelUnavailableError,
    StoreUnavailableError,
)
from durable_adk.models import BaseLlm, LlmRequest, LlmResponse
from durable_adk.planners import PlanReActPlanner
from durable_adk.plugins import BasePlugin
from durable_adk.sessions.call_attempt import AttemptEnd, CallAttempt
from durable_adk.tools import LongRunningFunctionTool
from durable_adk.wire.effect import Attempt
from durable_adk.wire.run_config import StreamingMode
from tests.support.scripts import call
from tests.support.steps import INVOCATION, KEY, Steps
from tests.support.waiting import PATIENCE, until


def text(words: str, tokens: int = 0, *, partial: bool | None = None) -> LlmResponse:
    """A model's words, and what they cost."""
    usage = types.GenerateContentResponseUsageMetadata(total_token_count=tokens)
    content = types.Content(role="model", parts=[types.Part(text=words)])
    return LlmResponse(content=content, usage_metadata=usage if tokens else None, partial=partial)


class Streaming(BaseLlm):
    """Says some responses, and then raises."""

    model: str = "streaming"
    responses: list[LlmResponse]
    error: Any
    hanging: asyncio.Event = Field(default_factory=asyncio.Event)

    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        """See the base class."""
        for response in self.responses:
            yield response
        if self.error == "hangs":
            self.hanging.set()
            await asyncio.Event().wait()
        raise self.error


class Hold:
    """A callback in which the first attempt is lost."""

    def __init__(self) -> None:
        self.entered = 0

    async def __call__(self, **_: Any) -> None:
        """Wait for ever, once."""
        self.entered += 1
        if self.entered == 1:
            await asyncio.Event().wait()


class Holding(BasePlugin):
    """The same as a plugin's hook."""

    def __init__(self, hook: str, hold: Hold) -> None:
        super().__init__(name="holding")
        setattr(self, hook, hold)


def order() -> None:
    """Order something."""


async def lost(work: Any, when: Callable[[], object]) -> None:
    """Have an attempt go under as soon as something is so."""
    task = asyncio.ensure_future(work)
    await until(lambda: when() or task.done())
    assert not task.done(), task.result()
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task


async def attempts(steps: Steps) -> list[CallAttempt]:
    """What is recorded of the attempts in vain."""
    return await read_attempts(steps.sessions, KEY, INVOCATION)


@pytest.mark.parametrize("hook", ["callback", "after_model_callback", "on_event_callback"])
async def test_an_answer_that_has_arrived_is_not_asked_for_again(hook: str) -> None:
    """I10, F2: lost in what follows the model; what callbacks before it had changed is kept."""
    hold, before = Hold(), []

    def note(callback_context: Any, llm_request: Any) -> None:
        before.append(True)
        callback_context.state["temp:seen"] = callback_context.state["seen"] = 1

    fields = {"after_model_callback": hold} if hook == "callback" else {}
    app = {} if hook == "callback" else {"plugins": [Holding(hook, hold)]}
    made = Steps(
        lambda request: f"answer {len(made.model.requests)}",
        app=app,
        before_model_callback=note,
        **fields,
    )
    step = await made.model_step()
    step.early_commit.on_event = hook == "on_event_callback" or None
    await lost(made.effects.perform(step, Attempt(number=1)), lambda: hold.entered)
    result = await made.effects.perform(step, Attempt(number=2))
    assert result.event is not None
    assert result.event.text == "answer 1"
    assert result.event.actions.state_delta == {"seen": 1, "temp:seen": 1}
    assert result.model_called
    assert (len(made.model.requests), len(before), hold.entered) == (1, 1, 2)
    assert await attempts(made) == []


async def test_an_answer_without_leave_to_commit_is_found_again() -> None:
    """I10: the loop would commit it, but never got it."""
    made = Steps(lambda request: f"answer {len(made.model.requests)}")
    step = await made.model_step(granted=False)
    await made.effects.perform(step, Attempt(number=1))
    again = await made.effects.perform(step, Attempt(number=2))
    assert again.event is not None
    assert again.event.text == "answer 1"


async def test_two_answers_become_one() -> None:
    """F8, I10: a frozen worker's and its successor's: whichever was recorded first counts."""
    made = Steps(lambda request: f"answer {len(made.model.requests)}")
    step = await made.model_step(granted=False)
    results = [await made.effects.perform(step, Attempt(number=1)) for _ in range(2)]
    assert [item.event.text for item in results if item.event] == ["answer 1"] * 2


async def test_a_long_running_call_is_still_one_when_its_answer_is_found_again() -> None:
    """FLW-41: what the request offered is known without building it again."""
    made = Steps([call("order")], tools=[LongRunningFunctionTool(order, deadline=60)])
    step = await made.model_step()
    first = await made.effects.perform(step, Attempt(number=1))
    made.agent.instruction = "{missing}"  # would raise if the request were built
    again = await made.effects.perform(step, Attempt(number=2))
    assert first.waits == again.waits
    assert len(again.waits) == 1
    assert len(made.model.requests) == 1


@pytest.mark.parametrize(
    ("fields", "notes"),
    [({}, 0), ({"before_model_callback": lambda **_: None}, 0), ({"output_key": "answer"}, 0),
     ({"after_model_callback": lambda **_: None}, 1), ({"planner": PlanReActPlanner()}, 1)],
)  # fmt: skip
async def test_the_plain_way_costs_nothing_more(fields: dict[str, Any], notes: int) -> None:
    """An answer is written down only if user code comes between it and its commit."""
    made = Steps(["answer"], **fields)
    step = await made.model_step()
    await made.effects.perform(step, Attempt(number=1))
    assert sum(made.sessions.calls.values()) == notes


async def test_a_store_that_does_not_take_the_note_costs_no_answer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The note is insurance, and the run continues without."""
    made = Steps(["answer"], after_model_callback=lambda **_: None)
    step = await made.model_step()

    async def away(*_: Any, **__: Any) -> str:
        raise StoreUnavailableError

    monkeypatch.setattr(made.sessions, "note", away)
    assert (await made.effects.perform(step, Attempt(number=1))).seq == 2


# ----- attempts in vain


async def test_a_failed_attempt_leaves_its_cost() -> None:
    """F14: of a stream that was cut the tokens of the last chunk; the next attempt answers."""
    model = Streaming(
        responses=[text("Par", 12, partial=True), text("is", 17, partial=True)],
        error=ModelUnavailableError("cut"),
    )
    made = Steps([])
    made.agent.model = model
    step = await made.model_step(run_config=RunConfig(streaming_mode=StreamingMode.SSE))
    with pytest.raises(ModelUnavailableError):
        await made.effects.perform(step, Attempt(number=1))
    [attempt] = await attempts(made)
    assert (attempt.event_id, attempt.attempt, attempt.ended) == ("e-1.1", 1, AttemptEnd.FAILED)
    assert (attempt.model, attempt.tokens) == ("streaming", 17)
    assert (attempt.error_type, attempt.error_message) == ("ModelUnavailableError", "cut")
    assert attempt.started is not None


async def test_a_lost_attempt_is_told_of_by_its_successor() -> None:
    """I10: it could not say so itself; one that had said how it ended stays as it is."""
    failures = [ModelUnavailableError("busy")]

    def reply(request: LlmRequest) -> str:
        if failures:
            raise failures.pop()
        return "answer"

    made = Steps(reply)
    step = await made.model_step()
    with pytest.raises(ModelUnavailableError):
        await made.effects.perform(step, Attempt(number=1))
    await made.effects.perform(step, Attempt(number=3))
    ends = [(item.attempt, item.ended) for item in await attempts(made)]
    assert ends == [(1, AttemptEnd.FAILED), (2, AttemptEnd.LOST)]


async def test_a_cancelled_attempt_leaves_its_cost() -> None:
    """CAN-1: the model may charge for what it had said by then."""
    made = Steps([])
    model = Streaming(responses=[text("Par", 5, partial=True)], error="hangs")
    made.agent.model = model
    step = await made.model_step(run_config=RunConfig(streaming_mode=StreamingMode.SSE))
    task = asyncio.ensure_future(made.effects.perform(step, Attempt(number=1)))
    await asyncio.wait_for(model.hanging.wait(), PATIENCE)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    [attempt] = await attempts(made)
    assert (attempt.ended, attempt.tokens) == (AttemptEnd.CANCELLED, 5)


async def test_an_answer_that_could_not_be_used_leaves_its_cost() -> None:
    """It was paid for, and no event says so."""

    def refuse(**_: Any) -> None:
        raise ValueError("not this one")

    made = Steps([text("answer", 30)], after_model_callback=refuse)
    step = await made.model_step()
    with pytest.raises(CallbackError):
        await made.effects.perform(step, Attempt(number=1))
    [attempt] = await attempts(made)
    assert (attempt.tokens, attempt.error_type) == (30, "ValueError")


async def test_an_error_that_a_hook_recovers_from_was_an_attempt_in_vain() -> None:
    """The event is the hook's; what the model cost is in the note."""
    made = Steps([ModelError("no")], on_model_error_callback=lambda **_: text("sorry"))
    result = await made.effects.perform(await made.model_step(), Attempt(number=1))
    assert result.event is not None
    assert [item.error_message for item in await attempts(made)] == ["no"]


async def test_what_is_not_asked_is_no_attempt() -> None:
    """A callback that fails before the model has cost no tokens."""

    def refuse(**_: Any) -> None:
        raise ValueError("not now")

    made = Steps(["answer"], before_model_callback=refuse)
    with pytest.raises(CallbackError):
        await made.effects.perform(await made.model_step(), Attempt(number=1))
    assert await attempts(made) == []
