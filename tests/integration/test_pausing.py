"""Invocations that wait for somebody outside (D9)."""

import asyncio
import time
import uuid
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from google.genai import types

from durable_adk.agents import LlmAgent
from durable_adk.artifacts import FileArtifactService
from durable_adk.cli.terminal import gist as shown_as
from durable_adk.client import temporal_backend
from durable_adk.errors import (
    EventConflictError,
    InvalidRequestError,
    InvocationCancelledError,
    InvocationNotFoundError,
    LeaseLostError,
    ToolTimeoutError,
)
from durable_adk.events import Event
from durable_adk.models import ScriptedModel
from durable_adk.runners import Runner
from durable_adk.sessions import SessionKey
from durable_adk.sessions.records import Status
from durable_adk.tools import FunctionTool
from durable_adk.tools.long_running_tool import LongRunningFunctionTool
from durable_adk.tools.tool_context import ToolContext
from durable_adk.wire.messages import InvocationAnswer, InvocationRequest
from durable_adk.wire.run_config import Budget, Priority, RunConfig
from tests.conftest import MakeRunner
from tests.support.scripts import USER, call, calls, gist, send, stored
from tests.support.waiting import PATIENCE, until

KEY = SessionKey("app", "u", "s")


def answer(pending: Any, **response: Any) -> types.Content:
    """The user's message that answers a call."""
    part = types.FunctionResponse(id=pending.call_id, name=pending.name, response=response)
    return types.Content(role="user", parts=[types.Part(function_response=part)])


async def reply(runner: Runner, message: Any) -> list[Event]:
    """What comes of an answer."""
    return [event async for event in runner.run_async(**USER, new_message=message)]


async def status(runner: Runner, invocation_id: str) -> Status:
    """How far the store says an invocation is."""
    record = await runner.session_service.get_invocation(KEY, invocation_id)
    assert record is not None
    return record.status


async def closed(runner: Runner, invocation_id: str) -> None:
    """Wait until the invocation has ended."""

    async def is_closed() -> bool:
        return (await status(runner, invocation_id)).closed

    await until(is_closed)


async def attached(runner: Runner, invocation_id: str) -> list[Event]:
    """The invocation's events, from the first."""
    return [event async for event in runner.run_async(**USER, invocation_id=invocation_id)]


def order(item: str) -> None:
    """Order something; the shop answers later."""


def ticket(item: str) -> dict[str, str]:
    """Open a ticket; it is closed later."""
    return {"status": "pending", "ticket": "t1"}


def buyer(tool: Any, *after: str, **fields: Any) -> LlmAgent:
    """An agent that calls one tool first."""
    name = tool.name
    model = ScriptedModel(replies=[call(name, item="book"), *after])
    return LlmAgent(name=fields.pop("name", "buyer"), model=model, tools=[tool], **fields)


async def test_a_call_without_a_result_pauses_and_its_answer_resumes_the_same_invocation(
    make_runner: MakeRunner,
) -> None:
    """D9, FLW-50, TOL-41, OPEN-3: no lease is held meanwhile; the model sees the late response."""
    agent = buyer(LongRunningFunctionTool(order), "it came")
    runner = await make_runner(agent)
    events = await send(runner)
    assert [gist(event) for event in events] == ["buyer call order"]
    assert events[0].is_final_response()
    invocation = events[0].invocation_id
    assert await status(runner, invocation) is Status.PAUSED
    assert await runner.session_service.active_invocation(KEY) is None
    (pending,) = await runner.pending(**USER)
    assert pending.args == {"item": "book"}
    after = await reply(runner, answer(pending, delivered=True))
    assert [gist(event) for event in after] == ["buyer text it came"]
    assert after[0].invocation_id == invocation
    assert await status(runner, invocation) is Status.COMPLETED
    assert await runner.pending(**USER) == []
    assert isinstance(agent.model, ScriptedModel)
    last = agent.model.requests[-1].contents[-1].parts
    assert last is not None
    assert last[0].function_response is not None
    assert last[0].function_response.response == {"delivered": True}


class Refunds:
    """Counts the refunds it has made."""

    def __init__(self) -> None:
        self.made: list[int] = []

    def refund(self, amount: int) -> dict[str, int]:
        """Pay money back."""
        self.made.append(amount)
        return {"refunded": amount}


def refunder(refunds: Refunds, **options: Any) -> LlmAgent:
    """An agent whose tool somebody has to approve."""
    tool = FunctionTool(refunds.refund, require_confirmation=True, **options)
    model = ScriptedModel(replies=[call("refund", amount=5), "that was it"])
    return LlmAgent(name="desk", model=model, tools=[tool])


async def test_answers_that_fit_nothing_are_refused_and_change_nothing(
    make_runner: MakeRunner,
) -> None:
    """TRAP-28, TOL-64: forged, misnamed, malformed, repeated."""
    refunds = Refunds()
    runner = await make_runner(refunder(refunds))
    await send(runner)
    (pending,) = await runner.pending(**USER)
    before = len(await stored(runner))
    forged = pending.model_copy(update={"call_id": "adk-forged"})
    misnamed = pending.model_copy(update={"name": "refund"})
    for message in (
        answer(forged, confirmed=True),
        answer(misnamed, confirmed=True),
        answer(pending, confirmed="yes"),
    ):
        with pytest.raises(InvalidRequestError):
            await reply(runner, message)
    assert len(await stored(runner)) == before
    await reply(runner, answer(pending, confirmed=True))
    with pytest.raises(InvalidRequestError):
        await reply(runner, answer(pending, confirmed=True))
    assert refunds.made == [5]


async def test_of_two_answers_at_once_one_counts(make_runner: MakeRunner) -> None:
    """TOL-64: the workflow decides, whatever both clients saw before."""
    refunds = Refunds()
    runner = await make_runner(refunder(refunds))
    await send(runner)
    (pending,) = await runner.pending(**USER)
    yes, no = answer(pending, confirmed=True), answer(pending, confirmed=False)
    outcomes = await asyncio.gather(reply(runner, yes), reply(runner, no), return_exceptions=True)
    assert sum(isinstance(outcome, InvalidRequestError) for outcome in outcomes) == 1
    responses = [r for event in await stored(runner) for r in event.get_function_responses()]
    assert [r.name for r in responses].count("adk_request_confirmation") == 1


def refund(amount: int) -> str:
    """Pay something back."""
    return f"refunded {amount}"


def desk(*after: str) -> LlmAgent:
    """An agent that makes two calls, each of which needs an approval."""
    asked = calls(("refund", {"amount": 1}), ("refund", {"amount": 2}))
    tools = [FunctionTool(refund, require_confirmation=True)]
    return LlmAgent(name="desk", model=in_order(asked, *after), tools=tools)


def in_order(*replies: Any) -> ScriptedModel:
    """A model that gives its replies one after the other, whatever the prompt leaves out."""
    left = list(replies)
    return ScriptedModel(replies=lambda _: left.pop(0))


async def test_an_answered_call_without_a_tool_result_is_spoken_of_at_once(
    make_runner: MakeRunner,
) -> None:
    """TOL-42: of two long-running calls too, in whatever order they are answered."""
    asked = calls(("order", {"item": "book"}), ("order", {"item": "pen"}))
    model = in_order(asked, "one is here", "both are here")
    agent = LlmAgent(name="buyer", model=model, tools=[LongRunningFunctionTool(order)])
    runner = await make_runner(agent)
    await send(runner)
    book, pen = await runner.pending(**USER)
    after = await reply(runner, answer(pen, status="delivered"))
    assert [gist(event) for event in after] == ["buyer text one is here"]
    after = await reply(runner, answer(book, status="delivered"))
    assert [gist(event) for event in after] == ["buyer text both are here"]
    await closed(runner, after[0].invocation_id)


@pytest.mark.parametrize(("policy", "made"), [("reject", []), ("approve", [5])])
async def test_a_deadline_decides_a_confirmation(
    make_runner: MakeRunner, policy: str, made: list[int]
) -> None:
    """D9: a durable timer with a policy."""
    refunds = Refunds()
    runner = await make_runner(refunder(refunds, deadline=0.3, on_deadline=policy))
    events = await send(runner)
    await closed(runner, events[0].invocation_id)
    events = await attached(runner, events[0].invocation_id)
    assert gist(events[-1]) == "desk text that was it"
    assert refunds.made == made


@pytest.mark.parametrize("kind", ["confirmation", "long_running"])
async def test_who_is_asked_sees_the_deadline(make_runner: MakeRunner, kind: str) -> None:
    """As the time at which the loop will decide, whichever event asks."""
    waits = LongRunningFunctionTool(order, deadline=3600.0)
    asked = refunder(Refunds(), deadline=3600.0) if kind == "confirmation" else buyer(waits, "")
    runner = await make_runner(asked)
    before = time.time()
    await send(runner)
    (pending,) = await runner.pending(**USER)
    assert pending.kind == kind
    assert pending.deadline == pending.requested_at + 3600.0
    assert pending.on_deadline == ("reject" if kind == "confirmation" else "tell")
    assert before + 3600.0 <= pending.deadline <= time.time() + 3600.0


async def test_a_deadline_may_fail_the_run_or_tell_the_model(make_runner: MakeRunner) -> None:
    """D9: `fail` raises for whoever attaches; `tell` is a response with an error."""
    tool = LongRunningFunctionTool(order, deadline=0.3, on_deadline="fail")
    runner = await make_runner(buyer(tool, "never"))
    name = f"late-{uuid.uuid4()}"
    with suppress(ToolTimeoutError):  # it may have ended before the client saw it pause
        await send(runner, invocation_id=name)
    await closed(runner, name)
    with pytest.raises(ToolTimeoutError):
        await attached(runner, name)
    told = buyer(LongRunningFunctionTool(order, deadline=0.3, on_deadline="tell"), "then not")
    runner = await make_runner(told)
    events = await send(runner)
    await closed(runner, events[0].invocation_id)
    responses = [r for event in await stored(runner) for r in event.get_function_responses()]
    assert "error" in (responses[0].response or {})


async def test_cancelling_a_paused_invocation_seals_it(make_runner: MakeRunner) -> None:
    """CAN-1, CAN-2: the call is answered, late answers are refused, the next message runs."""
    agent = buyer(LongRunningFunctionTool(order), "hello again")
    runner = await make_runner(agent)
    events = await send(runner)
    (pending,) = await runner.pending(**USER)
    invocation = events[0].invocation_id
    assert await runner.cancel(**USER, invocation_id=invocation)
    await closed(runner, invocation)
    assert await status(runner, invocation) is Status.CANCELLED
    assert (await stored(runner))[-1].error_code == "INVOCATION_ABORTED"
    with pytest.raises(InvalidRequestError):
        await reply(runner, answer(pending, ok=True))
    assert not await runner.cancel(**USER, invocation_id=invocation)
    assert [gist(event) for event in await send(runner)] == ["buyer text hello again"]


async def test_a_later_update_starts_another_invocation(make_runner: MakeRunner) -> None:
    """TOL-41, OPEN-3, AGT-40: it goes to the agent that made the call."""
    agent = buyer(LongRunningFunctionTool(order), "it came", "and again")
    runner = await make_runner(agent)
    first = await send(runner)
    (pending,) = await runner.pending(**USER)
    await reply(runner, answer(pending, part=1))
    assert isinstance(agent.model, ScriptedModel)
    agent.model.replies = ["never", "and again"]
    after = await reply(runner, answer(pending, part=2))
    assert [gist(event) for event in after] == ["buyer text and again"]
    assert after[0].invocation_id != first[0].invocation_id


async def test_an_approval_can_be_sent_again_under_its_id(make_runner: MakeRunner) -> None:
    """I12: the same yields the same events, another one is refused, and the tool runs once."""
    refunds = Refunds()
    runner = await make_runner(refunder(refunds))
    await send(runner)
    (pending,) = await runner.pending(**USER)

    async def say(confirmed: bool) -> list[str]:
        message = answer(pending, confirmed=confirmed)
        run = runner.run_async(**USER, new_message=message, invocation_id="mine")
        return [event.id async for event in run]

    first = await say(True)
    assert first == await say(True)
    with pytest.raises(EventConflictError, match="Another answer") as refused:
        await say(False)
    assert refused.value.field == "new_message"
    assert refunds.made == [5]


async def test_an_answer_is_told_that_its_first_sending_was_taken_meanwhile(
    make_runner: MakeRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    """I12: after the client has looked into the session; nobody else has answered."""
    refunds = Refunds()
    runner = await make_runner(refunder(refunds))
    await send(runner)
    (pending,) = await runner.pending(**USER)
    sessions = runner.session_service
    read, first = sessions.read_from_calls, list[Event]()

    async def say() -> list[Event]:
        message = answer(pending, confirmed=True)
        run = runner.run_async(**USER, new_message=message, invocation_id="mine")
        return [event async for event in run]

    async def earlier(*args: Any, **options: Any) -> Any:
        monkeypatch.undo()
        found = await read(*args, **options)
        first.extend(await say())
        return found

    monkeypatch.setattr(sessions, "read_from_calls", earlier)
    second = await say()
    assert [event.id for event in second] == [event.id for event in first]
    assert refunds.made == [5]


async def is_refused(runner: Runner, invocation_id: str, answer: InvocationAnswer) -> bool:
    """Whether an answer is refused; one that comes too late is not."""
    record = await runner.session_service.get_invocation(KEY, invocation_id)
    assert record is not None
    try:
        await runner._client.backend.answer(KEY, record, answer)
    except InvalidRequestError:
        return True
    return False


async def test_no_answers_name_switches_a_deadline_off(make_runner: MakeRunner) -> None:
    """I16: names that the loop gives to its own answers keep it from nothing."""
    for deadline in (1.0, 8.0, 64.0):  # the first that leaves the time to forge answers
        refunds = Refunds()
        runner = await make_runner(refunder(refunds, deadline=deadline, on_deadline="reject"))
        events = await send(runner)
        name, asked = events[0].invocation_id, events[1].get_function_calls()[0].id
        forged = [
            InvocationAnswer(call_id=call_id, confirmed=True, answer_id=f"{asked}.expired")
            for call_id in ("no-such-call", asked)
        ]
        refused = [await is_refused(runner, name, answer) for answer in forged]
        if await status(runner, name) is Status.PAUSED:
            assert refused == [True, True]
            break
    await closed(runner, name)
    assert await status(runner, name) is Status.COMPLETED
    assert refunds.made == []


@pytest.mark.thorough
async def test_no_message_waits_for_an_invocation_of_a_deleted_session(
    make_runner: MakeRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    """I11, I24: under the id of one that is paused, where its session was deleted and made anew.

    An answer to the old call could not end it either. It is terminated, so its id can be used
    again.
    """
    runner = await make_runner(buyer(LongRunningFunctionTool(order)))
    one = f"one-{uuid.uuid4()}"  # workflows of other tests are still open
    await send(runner, "buy", invocation_id=one)
    named = {"app_name": "app", "user_id": "u", "session_id": "s"}
    await runner.session_service.delete_session(**named)
    await runner.session_service.create_session(**named)
    monkeypatch.setattr(temporal_backend, "WORKER_CHECK", 0.2)
    async with asyncio.timeout(PATIENCE):
        with pytest.raises(InvocationNotFoundError, match="session was deleted"):
            await send(runner, "buy", invocation_id=one)

        async def answered() -> list[str] | None:
            with suppress(InvocationCancelledError, InvocationNotFoundError, LeaseLostError):
                return list(map(gist, await send(runner, "buy", invocation_id=one)))
            return None

        assert await until(answered) == ["buyer call order"]


async def test_an_id_is_used_again_once_its_session_is_deleted(
    make_runner: MakeRunner, tmp_path: Path
) -> None:
    """It is another invocation: nothing is taken for a repeat of the first, not even a file.

    Clients may number their messages, and begin anew with each conversation.
    """
    keys: list[str] = []

    async def pay(tool_context: ToolContext) -> int:
        keys.append(tool_context.idempotency_key)
        return await tool_context.save_artifact("user:receipt", types.Part(text=str(len(keys))))

    agent = LlmAgent(name="buyer", model=ScriptedModel(replies=[call("pay"), "paid"]), tools=[pay])
    runner = await make_runner(agent, artifact_service=FileArtifactService(tmp_path / "files"))
    name, named = f"one-{uuid.uuid4()}", {"app_name": "app", "user_id": "u", "session_id": "s"}
    for _ in range(2):
        for _ in ("first", "repeat"):
            events = await send(runner, "buy", invocation_id=name)
            assert gist(events[-1]) == "buyer text paid"
        await until(lambda: not runner._client.backend.busy())  # in process, its task ends later
        await runner.session_service.delete_session(**named)
        await runner.session_service.create_session(**named)
    assert len(keys) == len(set(keys)) == 2
    assert runner.artifact_service is not None
    found = await runner.artifact_service.load_artifact(
        app_name="app", user_id="u", filename="user:receipt"
    )
    assert found is not None
    assert found.text == "2"


async def test_the_event_of_an_answer_says_who_gave_it(make_runner: MakeRunner) -> None:
    """S11: as a server knows them; who only may send messages cannot say so."""
    runner = await make_runner(buyer(LongRunningFunctionTool(order), "it came"))
    (called,) = await send(runner)
    (pending,) = await runner.pending(**USER)
    request = InvocationRequest.parse(
        {"app": "app", "user": "u", "session": "s", "message": answer(pending, delivered=True)}
    )
    async for _ in runner._client.send(request, answered_by={"user": "olga"}):
        pass
    given = [event for event in await stored(runner) if event.author == "user"][-1]
    assert given.invocation_id == called.invocation_id
    assert given.custom_metadata == {"adk_answered_by": {"user": "olga"}}
    assert "answered by olga" in [line.plain for line in shown_as(given)]


async def test_options_of_an_answer_hold_from_there_on(make_runner: MakeRunner) -> None:
    """RUN-27: as in ADK; what cannot be changed any more is refused, and nothing is stored."""
    runner = await make_runner(buyer(LongRunningFunctionTool(order), "it came"))
    asked = await send(runner, run_config=RunConfig(custom_metadata={"for": "buying"}))
    (pending,) = await runner.pending(**USER)
    given: Any = answer(pending, delivered=True)
    for wrong in (
        RunConfig(budget=Budget(tokens=9)),
        RunConfig(priority=Priority(priority_key=1)),
        RunConfig(custom_metadata={"adk_answered_by": {"user": "olga"}}),
    ):
        with pytest.raises(InvalidRequestError, match=r"run_config\.\w+: it holds|adk_answered_by"):
            await send(runner, given, run_config=wrong)
    assert len(await stored(runner)) == 2
    await send(runner, given, run_config=RunConfig(custom_metadata={"for": "paying"}))
    told = [event.custom_metadata for event in await stored(runner)]
    assert (len(asked), told) == (1, [{"for": "buying"}] * 2 + [{"for": "paying"}] * 2)
