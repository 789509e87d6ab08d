"""What becomes of a message whose session is busy: whose turn it is (D7, F28)."""

import asyncio
import math
import uuid
from collections.abc import AsyncIterator

import pytest
from temporalio.api.enums.v1 import EventType
from temporalio.client import Client

from durable_adk.agents import LlmAgent
from durable_adk.errors import (
    InvocationCancelledError,
    InvocationTerminatedError,
    LeaseLostError,
    SessionBusyError,
)
from durable_adk.models import ScriptedModel
from durable_adk.models.llm_request import LlmRequest
from durable_adk.models.scripted import Answer
from durable_adk.runners import Runner
from durable_adk.sessions import InvocationRecord, SessionKey, Status, Ticket
from durable_adk.sessions.lease_owner import TemporalLeaseOwner
from tests.conftest import MakeRunner
from tests.support.scripts import USER, call, ensure_session, gist, send, stored
from tests.support.waiting import PATIENCE, forever, until


class Queue:
    """A session whose first invocation runs until the gate opens, and messages behind it."""

    def __init__(self, make_runner: MakeRunner) -> None:
        self._make = make_runner
        # Workflow ids are derived from it, and the server is shared.
        self._prefix = uuid.uuid4().hex
        self.gate = asyncio.Event()
        self.sent: list[asyncio.Task[list[str]]] = []

    async def begin(self) -> None:
        """Send the message that keeps the session busy."""
        self.runner: Runner = await self._make(self._agent())
        self.key = SessionKey(self.runner.app_name, USER["user_id"], USER["session_id"])
        await ensure_session(self.runner)
        await self.send("i0", when=lambda: self.is_active("i0"))

    async def send(self, name: str, *, when=None, **options: str) -> None:
        """Send a message; return when it has its place."""
        self.sent.append(asyncio.create_task(self._texts(name, options)))
        await until(when or (lambda: self._waits(name)))

    async def waiting(self) -> list[Ticket]:
        """Who waits."""
        return await self.runner.session_service.waiting(self.key)

    async def is_active(self, name: str) -> bool:
        """Whether the invocation holds the session, and its tool runs."""
        active = await self.runner.session_service.active_invocation(self.key)
        log = await stored(self.runner)
        mine = active is not None and active.invocation_id == self._prefix + name
        return mine and bool(log[-1].get_function_calls())

    async def record(self, name: str) -> InvocationRecord:
        """What the store knows of an invocation."""
        sessions = self.runner.session_service
        record = await sessions.get_invocation(self.key, self._prefix + name)
        assert record is not None
        return record

    async def workflows(self) -> list[str]:
        """The workflows of those who wait; none if they wait in process."""
        lease_owners = [
            TemporalLeaseOwner.parse(ticket.lease_owner) for ticket in await self.waiting()
        ]
        return [lease_owner.workflow_id for lease_owner in lease_owners if lease_owner]

    def all_done(self) -> bool:
        """Whether all that was sent is over."""
        return all(task.done() for task in self.sent)

    async def finish(self) -> list[str]:
        """Open the gate and wait for all; the messages in the order in which they were run."""
        self.gate.set()
        outcomes = asyncio.gather(*self.sent, return_exceptions=True)
        self.outcomes = await asyncio.wait_for(outcomes, PATIENCE)
        # Of those who are gone there may be tickets, which nobody is behind.
        left = {ticket.invocation_id for ticket in await self.waiting()}
        log = await stored(self.runner)
        turns = [event.invocation_id for event in log if event.author == "user"]
        names = [turn.removeprefix(self._prefix) for turn in turns]
        assert not left.intersection(turns)
        # Each turn by itself: the events of two invocations never interleave (I6).
        assert [event.invocation_id for event in log] == sorted(
            (event.invocation_id for event in log), key=turns.index
        )
        return names

    async def cancel(self, name: str) -> bool:
        """Cancel an invocation."""
        return await self.runner.cancel(**USER, invocation_id=self._prefix + name)

    async def _texts(self, name: str, options: dict[str, str]) -> list[str]:
        names = {"new_message": f"message {name}", "invocation_id": self._prefix + name}
        events = self.runner.run_async(**USER, **names, **options)
        return [event.text async for event in events if event.text]

    async def _waits(self, name: str) -> bool:
        waiting = [ticket.invocation_id for ticket in await self.waiting()]
        return self._prefix + name in waiting

    def _agent(self) -> LlmAgent:
        async def think() -> str:
            """Take until the gate opens."""
            await until(self.gate.is_set, math.inf)  # it belongs to the test's event loop
            return "thought"

        return LlmAgent(name="a", model=ScriptedModel(replies=_think_then_say), tools=[think])


def _think_then_say(request: LlmRequest) -> Answer:
    (part,) = request.contents[-1].parts or []
    return "done" if part.function_response else call("think")


@pytest.fixture
async def queue(make_runner: MakeRunner) -> AsyncIterator[Queue]:
    """A busy session."""
    made = Queue(make_runner)
    await made.begin()
    yield made
    made.gate.set()


@pytest.mark.thorough
async def test_twenty_messages_run_in_the_order_in_which_they_came(queue: Queue) -> None:
    """F28: whoever happens to ask at the right moment, it is not its turn before its turn."""
    names = [f"m{number}" for number in range(20)]
    for name in names:
        await queue.send(name)
    assert await queue.finish() == ["i0", *names]
    assert queue.outcomes == [["done"]] * 21


async def test_a_waiter_that_is_cancelled_holds_up_nobody(queue: Queue) -> None:
    """CAN-1: it has stored nothing, and those behind it keep their order."""
    for name in "abcd":
        await queue.send(name)
    for name in "ac":
        assert await queue.cancel(name)
    await until(lambda: queue.sent[1].done() and queue.sent[3].done())
    if not await queue.workflows():
        assert len(await queue.waiting()) == 2
    assert await queue.finish() == ["i0", "b", "d"]
    # An attempt that was on its way when the cancellation came may have had the last word.
    ended = asyncio.CancelledError, InvocationCancelledError, SessionBusyError
    assert all(isinstance(queue.outcomes[number], ended) for number in (1, 3))


async def test_a_late_repeat_does_not_undo_a_cancellation(queue: Queue) -> None:
    """I15: not even where a session of the same name was deleted before, whose ids are free."""
    sessions = queue.runner.session_service
    await sessions.delete_session(**queue.key._asdict())
    await sessions.create_session(**queue.key._asdict())
    await queue.send("i1", when=lambda: queue.is_active("i1"))
    await queue.send("b")
    if not await queue.workflows():
        pytest.skip("In process, nothing knows of what was cancelled before it was opened.")
    assert await queue.cancel("b")
    await until(queue.sent[-1].done)
    await queue.send("b", when=queue.sent[-1].done)  # which it is: the first one
    await until(queue.sent[-1].done)
    queue.gate.set()
    *_, told, again = await asyncio.gather(*queue.sent, return_exceptions=True)
    assert isinstance(told, InvocationCancelledError)
    assert isinstance(again, InvocationCancelledError)


@pytest.mark.thorough
async def test_a_terminated_waiter_holds_up_nobody(queue: Queue, client: Client) -> None:
    """D7: whoever finds itself behind it learns from Temporal that it is gone."""
    for name in "abcd":
        await queue.send(name)
    workflows = await queue.workflows()
    if not workflows:
        pytest.skip("What runs in process cannot be terminated.")
    for workflow in workflows[0], workflows[2]:
        await client.get_workflow_handle(workflow).terminate()
    assert await queue.finish() == ["i0", "b", "d"]
    gone = [type(queue.outcomes[number]) for number in (1, 3)]
    assert gone == [InvocationTerminatedError] * 2


async def test_the_last_waiter_s_ticket_is_found_by_the_next_message(
    queue: Queue, client: Client
) -> None:
    """A ticket that nobody was behind when its lease owner went does not keep a later message."""
    await queue.send("a")
    workflows = await queue.workflows()
    if not workflows:
        pytest.skip("What runs in process cannot be terminated.")
    await client.get_workflow_handle(workflows[0]).terminate()
    queue.gate.set()
    await asyncio.gather(*queue.sent, return_exceptions=True)
    assert await queue.workflows() == workflows
    await queue.send("b", when=queue.all_done)
    assert await queue.finish() == ["i0", "b"]
    assert await queue.waiting() == []


# ----- interrupt


async def test_an_interrupt_ends_the_active_one_and_goes_before_those_that_wait(
    queue: Queue,
) -> None:
    """D7: the active one is cancelled and sealed; nobody who waits gets in between."""
    await queue.send("a")
    await queue.send("x", when=lambda: queue.is_active("x"), when_busy="interrupt")
    log = await stored(queue.runner)
    assert [gist(event) for event in log[:5]] == [
        "user text message i0",
        "a call think",
        "a response think",
        "a error INVOCATION_ABORTED",
        "user text message x",
    ]
    record = await queue.record("i0")
    assert record.status is Status.CANCELLED
    assert await queue.finish() == ["i0", "x", "a"]
    assert queue.outcomes[1:] == [["done"], ["done"]]
    late = log[1].model_copy(update={"id": "late"})
    with pytest.raises(LeaseLostError):  # I6: it may come back, but not write
        await queue.runner.session_service.commit_event(
            queue.key, late, invocation_id=record.invocation_id, epoch=record.epoch
        )


@pytest.mark.thorough
async def test_the_latest_interrupt_wins(queue: Queue) -> None:
    """An interrupt ends whatever is active when it comes, another interrupt's message too."""
    await queue.send("a")
    for name in "xyz":
        await queue.send(name, when=lambda name=name: queue.is_active(name), when_busy="interrupt")
    assert await queue.finish() == ["i0", "x", "y", "z", "a"]
    statuses = [(await queue.record(name)).status for name in ("i0", "x", "y", "z", "a")]
    assert statuses == [Status.CANCELLED] * 3 + [Status.COMPLETED] * 2


async def test_an_interrupt_is_asked_for_once_in_the_history(queue: Queue, client: Client) -> None:
    """D7: every attempt asks again, and none of them adds to the history of the one that ends."""
    lease_owner = TemporalLeaseOwner.parse((await queue.record("i0")).lease_owner)
    if lease_owner is None:
        pytest.skip("What runs in process has no history.")
    await queue.send("x", when=lambda: queue.is_active("x"), when_busy="interrupt")
    history = await client.get_workflow_handle(lease_owner.workflow_id).fetch_history()
    kinds = [event.event_type for event in history.events]
    assert kinds.count(EventType.EVENT_TYPE_WORKFLOW_EXECUTION_CANCEL_REQUESTED) == 1
    assert await queue.finish() == ["i0", "x"]


async def test_an_interrupted_tool_has_ended_when_the_next_message_begins(
    make_runner: MakeRunner,
) -> None:
    """CAN-1: an async tool may clean up, and nothing of the session runs beside that."""
    trace: list[str] = []
    clean = asyncio.Event()

    async def think() -> str:
        """Think until somebody interrupts."""
        trace.append("begins")
        try:
            await forever()
        finally:
            trace.append("cleans up")
            await until(clean.is_set)
            trace.append("has cleaned up")

    def reply(request: LlmRequest) -> Answer:
        (part,) = request.contents[-1].parts or []
        if part.text == "think":
            return call("think")
        if part.text == "now":
            trace.append("is asked")
        return "done"

    agent = LlmAgent(name="a", model=ScriptedModel(replies=reply), tools=[think])
    runner = await make_runner(agent)
    await ensure_session(runner)
    first = asyncio.create_task(send(runner, "think"))
    await until(lambda: trace)
    second = asyncio.create_task(send(runner, "now", when_busy="interrupt"))
    await until(lambda: len(trace) > 1)
    try:
        for number in range(10):  # other sessions' messages take longer than the second one would
            names = {"user_id": "u", "session_id": f"{number}"}
            await runner.session_service.create_session(app_name=runner.app_name, **names)
            assert [event async for event in runner.run_async(**names, new_message="beside")]
        assert trace == ["begins", "cleans up"]
    finally:
        clean.set()
    await asyncio.wait_for(second, PATIENCE)
    await asyncio.gather(first, return_exceptions=True)
    assert trace == ["begins", "cleans up", "has cleaned up", "is asked"]


async def test_a_free_session_has_nothing_to_interrupt(queue: Queue) -> None:
    """The message simply runs, and what was before it stays."""
    queue.gate.set()
    await until(queue.all_done)
    await queue.send("x", when=queue.all_done, when_busy="interrupt")
    assert await queue.finish() == ["i0", "x"]
    assert queue.outcomes == [["done"], ["done"]]
