"""Pauses and answers that are repeated, because the workflow task that made them was lost."""

from typing import Any, Literal

import pytest
from google.genai import types

from durable_adk.activities.dependencies import Dependencies, assume_alive
from durable_adk.activities.effects import EffectPerformer
from durable_adk.activities.invocation.close import close_invocation
from durable_adk.activities.invocation.open import open_invocation
from durable_adk.activities.invocation.pause import pause_invocation, take_answer
from durable_adk.agents import LlmAgent
from durable_adk.apps import App, AppRegistry
from durable_adk.conversation.pending_calls import pending_calls
from durable_adk.errors import InvalidRequestError, LeaseLostError, SessionBusyError
from durable_adk.events import Event
from durable_adk.models import ScriptedModel
from durable_adk.sessions import InMemorySessionService, InvocationRecord, SessionKey, Status
from durable_adk.wire.messages import InvocationAnswer, user_content
from durable_adk.wire.steps import AnswerStep, CloseStep, Ending, OpenStep, PauseStep
from tests.support.pausing import CANARY, GOOD, authenticating

KEY = SessionKey("app", "u", "s")
LEASE_OWNER = "temporal:n:r:w"


async def nobody_is_alive(lease_owner: str) -> bool:
    """Whoever has a lease or a ticket is gone."""
    del lease_owner
    return False


class Waiting:
    """An invocation that waits for the answer to two calls."""

    def __init__(self, lease_owner: str = LEASE_OWNER) -> None:
        self.lease_owner = lease_owner
        self.sessions = InMemorySessionService()
        app = App(name="app", root_agent=LlmAgent(name="a", model=ScriptedModel(replies=[])))
        self.deps = Dependencies(
            registry=AppRegistry([app]), sessions=self.sessions, is_alive=nobody_is_alive
        )

    async def open(self) -> None:
        """It has asked, and is not paused yet."""
        message = Event(id="e-1.0", invocation_id="e-1", author="user", timestamp=1.0)
        await self.sessions.open_invocation(
            KEY,
            invocation_id="e-1",
            lease_owner=self.lease_owner,
            user_event=message,
            create_session=True,
        )
        calls = [types.FunctionCall(id=name, name="order", args={}) for name in ("one", "two")]
        asked = Event(
            id="e-1.1",
            invocation_id="e-1",
            author="a",
            content=types.Content(
                role="model", parts=[types.Part(function_call=call) for call in calls]
            ),
            long_running_tool_ids={"one", "two"},
        )
        await self.sessions.commit_event(KEY, asked, invocation_id="e-1", epoch=1)

    async def pause(
        self, *, epoch: int = 1, revision: int = 2, lease_owner: str = LEASE_OWNER
    ) -> Literal[False] | None:
        """Pause it, as a loop that knows that much."""
        step = PauseStep(
            key=KEY, invocation_id="e-1", epoch=epoch, lease_owner=lease_owner, revision=revision
        )
        return await pause_invocation(self.deps, step)

    async def answer(self, call_id: str, *, epoch: int) -> int:
        """Answer a call; the epoch that the loop gets."""
        return (await take_answer(self.deps, self.answers(call_id, epoch=epoch))).epoch

    def answers(self, call_id: str, *, epoch: int) -> AnswerStep:
        """The step of an answer."""
        return AnswerStep(
            key=KEY,
            invocation_id="e-1",
            lease_owner=LEASE_OWNER,
            epoch=epoch,
            start_seq=1,
            event_id=f"e-1.answer.{call_id}",
            timestamp=2.0,
            answer=InvocationAnswer(call_id=call_id, answer_id=call_id, response={"came": True}),
            call_name="order",
        )

    def end(self, status: Status, *, lease_owner: str = LEASE_OWNER) -> CloseStep:
        """What its loop asks for in the end; it leaves no call open that it waits for."""
        return CloseStep(
            key=KEY,
            invocation_id="e-1",
            epoch=1,
            status=status,
            author="a",
            timestamp=3.0,
            lease_owner=lease_owner,
            revision=2,
        )

    async def be_busy(self) -> InvocationRecord:
        """Open another invocation of the session."""
        message = Event(id="busy.0", invocation_id="busy", author="user", timestamp=2.0)
        return await self.sessions.open_invocation(
            KEY, invocation_id="busy", lease_owner="local:busy", user_event=message
        )

    async def status(self) -> Status | None:
        """How it stands."""
        record = await self.sessions.get_invocation(KEY, "e-1")
        return record and record.status


@pytest.fixture
async def waiting() -> Waiting:
    """See `Waiting`."""
    made = Waiting()
    await made.open()
    return made


async def test_a_pause_is_repeated_after_the_answer(waiting: Waiting) -> None:
    """I11: both were in a task whose worker died; the run continues, and keeps its lease."""
    assert await waiting.pause() is None
    assert await waiting.answer("one", epoch=1) == 2
    assert await waiting.pause() is None  # it was paused, once
    assert await waiting.answer("one", epoch=1) == 2
    assert await waiting.status() is Status.RUNNING


READS = ("get_invocation", "find_event", "read_events", "read_state", "read_notes")


async def test_a_senders_answer_has_no_name_of_the_loops(waiting: Waiting) -> None:
    """I16: it is refused before anything of it is stored."""
    step = waiting.answers("one", epoch=1)
    step.answer.answer_id, step.named = "one.expired", True
    taken = await take_answer(waiting.deps, step)
    assert "reserved" in (taken.refused or "")


@pytest.mark.parametrize("name", READS)
async def test_an_attempt_that_was_given_up_may_store_the_answer_in_between(
    waiting: Waiting, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """I2, I11: before each read of the next attempt; it is the answer that it was to store."""
    read = getattr(waiting.sessions, name)

    async def late(*args: Any, **options: Any) -> Any:
        monkeypatch.undo()
        await waiting.answer("one", epoch=1)
        return await read(*args, **options)

    await waiting.pause()
    monkeypatch.setattr(waiting.sessions, name, late)
    taken = await take_answer(waiting.deps, waiting.answers("one", epoch=1))
    assert (taken.refused, taken.epoch, taken.call_ids) == (None, 2, ["one"])


async def test_two_pauses_are_repeated_after_both_answers(waiting: Waiting) -> None:
    """I11: the second one, with another epoch than the first time, does not stay."""
    for _ in range(3):
        await waiting.pause()
        epoch = await waiting.answer("one", epoch=1)
        await waiting.pause(epoch=epoch, revision=3)
        await waiting.answer("two", epoch=epoch)
        assert await waiting.status() is Status.RUNNING
    assert len(await waiting.sessions.read_events(KEY)) == 4


async def test_a_pause_of_the_dead_does_not_stop_the_living(waiting: Waiting) -> None:
    """I6, F8: its task was done again, and had the answer with it, so that there was no pause."""
    assert await waiting.answer("one", epoch=1) == 1
    assert await waiting.pause() is False
    assert await waiting.status() is Status.RUNNING


async def test_a_pause_of_the_dead_may_come_in_between(
    waiting: Waiting, monkeypatch: pytest.MonkeyPatch
) -> None:
    """I6, F8: after the answer's step has looked, and before it stores; it takes the lease then."""
    commit = waiting.sessions.commit_event

    async def late(*args: Any, **options: Any) -> int:
        monkeypatch.undo()
        await waiting.pause()
        return await commit(*args, **options)

    monkeypatch.setattr(waiting.sessions, "commit_event", late)
    assert await waiting.answer("one", epoch=1) == 2
    assert await waiting.status() is Status.RUNNING


@pytest.mark.parametrize("status", [Status.CANCELLED, Status.FAILED, Status.COMPLETED])
async def test_it_may_come_between_the_steps_of_an_end(
    waiting: Waiting, monkeypatch: pytest.MonkeyPatch, status: Status
) -> None:
    """I9, I11, I15: after the end has looked, and before it is stored; it takes the lease then."""
    close = waiting.sessions.close_invocation

    async def late(*args: Any, **options: Any) -> InvocationRecord:
        monkeypatch.undo()
        await waiting.pause()
        return await close(*args, **options)

    monkeypatch.setattr(waiting.sessions, "close_invocation", late)
    ending = await close_invocation(waiting.deps, waiting.end(status))
    assert ending.record.status is status is await waiting.status()
    assert await waiting.sessions.active_invocation(KEY) is None


async def test_so_may_a_pause_and_its_answer(
    waiting: Waiting, monkeypatch: pytest.MonkeyPatch
) -> None:
    """I9, I24: it runs then, under an epoch that the end has not looked at."""
    close = waiting.sessions.close_invocation

    async def late(*args: Any, **options: Any) -> InvocationRecord:
        monkeypatch.undo()
        await waiting.pause()
        await waiting.answer("one", epoch=1)
        return await close(*args, **options)

    monkeypatch.setattr(waiting.sessions, "close_invocation", late)
    ending = await close_invocation(waiting.deps, waiting.end(Status.CANCELLED))
    assert (ending.record.status, ending.record.epoch) == (Status.CANCELLED, 2)
    assert await waiting.sessions.active_invocation(KEY) is None


async def test_an_answer_to_a_busy_session_reads_no_events(
    waiting: Waiting, monkeypatch: pytest.MonkeyPatch
) -> None:
    """I22: it is looked at again and again, and there may be many events since its call."""
    await waiting.pause()
    await waiting.be_busy()
    with pytest.raises(SessionBusyError):
        await waiting.answer("one", epoch=1)
    monkeypatch.setattr(waiting.sessions, "read_events", None)
    with pytest.raises(SessionBusyError):
        await waiting.answer("one", epoch=1)


@pytest.mark.parametrize("status", [Status.CANCELLED, Status.FAILED, Status.ABANDONED])
async def test_what_is_paused_is_sealed_however_it_ends(waiting: Waiting, status: Status) -> None:
    """I9: nobody has its lease, and its calls are answered all the same."""
    await waiting.pause()
    ending = await close_invocation(waiting.deps, waiting.end(status))
    assert (ending.record.status, ending.record.sealed) == (status, True)
    events = [item.event for item in await waiting.sessions.read_events(KEY)]
    assert [event.id for event in events[2:]] == ["e-1.1.sealed", "e-1.end"]


@pytest.mark.parametrize("lease_owner", [LEASE_OWNER, "local:gone"])
async def test_the_next_message_seals_what_a_gone_owner_has_ended(
    monkeypatch: pytest.MonkeyPatch, lease_owner: str
) -> None:
    """I9, I24: of a paused invocation that was cancelled while another one ran.

    Of a process nobody can say whether it is gone; the seals are the same, whoever stores them.
    """
    waiting = Waiting(lease_owner)
    if lease_owner != LEASE_OWNER:
        waiting.deps.is_alive = assume_alive
    await waiting.open()
    await waiting.pause(lease_owner=lease_owner)
    busy = await waiting.be_busy()
    with pytest.raises(SessionBusyError):
        await close_invocation(waiting.deps, waiting.end(Status.CANCELLED, lease_owner=lease_owner))
    await waiting.sessions.close_invocation(
        KEY, invocation_id="busy", epoch=busy.epoch, status=Status.COMPLETED
    )
    monkeypatch.setattr("time.time", lambda: 1e11)
    step = OpenStep(
        key=KEY,
        invocation_id="next",
        lease_owner="temporal:n:r:next",
        event_id="next.0",
        timestamp=4.0,
        message=user_content("go on"),
    )
    await open_invocation(waiting.deps, step)
    events = [item.event for item in await waiting.sessions.read_events(KEY)]
    assert [event.id for event in events[-3:]] == ["e-1.1.sealed", "e-1.end", "next.0"]
    assert len(events[-3].get_function_responses()) == 2


async def test_an_answer_ends_a_owner_that_is_gone(waiting: Waiting) -> None:
    """I11: whoever waits for the lease does; no message need come."""
    await waiting.pause()
    await waiting.be_busy()
    taken = await EffectPerformer(waiting.deps).perform(waiting.answers("one", epoch=1))
    assert taken.epoch == 3
    assert await waiting.status() is Status.RUNNING
    record = await waiting.sessions.get_invocation(KEY, "busy")
    assert record is not None
    assert record.status is Status.ABANDONED


async def test_an_end_ends_a_owner_that_is_gone(waiting: Waiting) -> None:
    """I9, I11: its open calls are answered behind the other's end, by a worker without the app."""
    await waiting.pause()
    await waiting.be_busy()
    waiting.deps.registry = AppRegistry([])
    ending = await EffectPerformer(waiting.deps).perform(waiting.end(Status.CANCELLED))
    assert ending.record.sealed
    events = [item.event.id for item in await waiting.sessions.read_events(KEY)]
    assert events[-3:] == ["busy.end", "e-1.1.sealed", "e-1.end"]


async def test_neither_ends_a_owner_that_lives(waiting: Waiting) -> None:
    """I6: they wait."""
    await waiting.pause()
    await waiting.be_busy()
    waiting.deps.is_alive = assume_alive
    for step in (waiting.answers("one", epoch=1), waiting.end(Status.CANCELLED)):
        with pytest.raises(SessionBusyError):
            await EffectPerformer(waiting.deps).perform(step)
    record = await waiting.sessions.active_invocation(KEY)
    assert record is not None
    assert record.invocation_id == "busy"


async def test_two_ends_of_what_is_paused_agree(
    waiting: Waiting, monkeypatch: pytest.MonkeyPatch
) -> None:
    """I15, F8: both would store its seals; who comes second finds what the first has stored."""
    close = waiting.sessions.close_paused
    endings: list[Ending] = []

    async def late(*args: Any, **options: Any) -> InvocationRecord:
        monkeypatch.undo()
        endings.append(await close_invocation(waiting.deps, waiting.end(Status.CANCELLED)))
        return await close(*args, **options)

    await waiting.pause()
    monkeypatch.setattr(waiting.sessions, "close_paused", late)
    ending = await close_invocation(waiting.deps, waiting.end(Status.CANCELLED))
    assert [ending.record] == [one.record for one in endings]


async def test_only_its_owner_ends_what_is_paused_in_between(
    waiting: Waiting, monkeypatch: pytest.MonkeyPatch
) -> None:
    """I6: another one learns that it has lost it."""
    close = waiting.sessions.close_invocation

    async def late(*args: Any, **options: Any) -> InvocationRecord:
        await waiting.pause()
        return await close(*args, **options)

    monkeypatch.setattr(waiting.sessions, "close_invocation", late)
    with pytest.raises(LeaseLostError):
        await close_invocation(waiting.deps, waiting.end(Status.FAILED, lease_owner="another"))
    assert await waiting.status() is Status.PAUSED


async def test_only_its_owner_may_take_a_pause_for_repeated(waiting: Waiting) -> None:
    """I6: an owner that has lost the invocation to another learns so."""
    await waiting.pause()
    await waiting.answer("one", epoch=1)
    with pytest.raises(LeaseLostError):
        await waiting.pause(lease_owner="temporal:n:other:w")


async def test_an_answer_to_a_waiting_call_opens_nothing(waiting: Waiting) -> None:
    """TRAP-28, TOL-41: whoever starts workflows can send one; only an update starts an invocation.

    Its own repeat passes.
    """

    def step(name: str) -> OpenStep:
        given = types.FunctionResponse(id="one", name="order", response={"came": True})
        return OpenStep(
            key=KEY,
            invocation_id=name,
            lease_owner=f"temporal:n:r:{name}",
            event_id=f"{name}.0",
            timestamp=4.0,
            message=types.Content(role="user", parts=[types.Part(function_response=given)]),
        )

    await waiting.pause()
    with pytest.raises(InvalidRequestError, match="waited for by invocation 'e-1'"):
        await open_invocation(waiting.deps, step("next"))
    assert await waiting.sessions.get_invocation(KEY, "next") is None
    epoch = await waiting.answer("one", epoch=1)
    await waiting.sessions.close_invocation(
        KEY, invocation_id="e-1", epoch=epoch, status=Status.COMPLETED
    )
    for _ in range(2):
        opened = await open_invocation(waiting.deps, step("update"))
        assert opened.record is not None
        assert opened.record.invocation_id == "update"


async def test_no_credential_is_stored(waiting: Waiting) -> None:
    """TRAP-48, S3: a program that sends one by Temporal learns how to give it; nothing is kept."""
    events = [event.model_copy(update={"invocation_id": "e-1"}) for event in authenticating("e-1x")]
    for event in events:
        await waiting.sessions.commit_event(KEY, event, invocation_id="e-1", epoch=1)
    (asked,) = [call for call in pending_calls(events) if call.kind == "credential"]
    step = waiting.answers(asked.call_id, epoch=1)
    step.answer.response, step.call_name = GOOD[asked.name], asked.name
    taken = await take_answer(waiting.deps, step)
    assert "must not travel" in (taken.refused or "")
    stored = await waiting.sessions.read_events(KEY)
    assert CANARY not in str(
        [item.event.to_json() for item in stored if item.event.author == "user"]
    )
