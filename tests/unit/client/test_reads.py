"""What a client and a worker read of a long session to take an answer."""

from typing import Any

from google.genai import types

from durable_adk.agents import LlmAgent
from durable_adk.conversation.pending_calls import PendingCall
from durable_adk.events import Event
from durable_adk.models import ScriptedModel
from durable_adk.runners import Runner
from durable_adk.sessions import InMemorySessionService, SessionKey, Status
from durable_adk.sessions.records import StoredEvent
from durable_adk.tools import FunctionTool, LongRunningFunctionTool
from tests.support.scripts import call

KEY = SessionKey("app", "u", "s")
USER = {"user_id": "u", "session_id": "s"}
MANY = 3000


class Sessions(InMemorySessionService):
    """A store that counts the events that are read from it."""

    def __init__(self) -> None:
        super().__init__()
        self.read = 0

    async def read_events(self, *args: Any, **options: Any) -> list[StoredEvent]:
        """See base class."""
        found = await super().read_events(*args, **options)
        self.read += len(found)
        return found


def pay(amount: int) -> str:
    """Pay."""
    return f"paid {amount}"


def order() -> None:
    """Order; the result comes later."""


async def runner_of(*replies: Any) -> Runner:
    """A runner over a session that has many events."""
    sessions = Sessions()
    first = Event(id="old.0", invocation_id="old", author="user", timestamp=1.0)
    record = await sessions.open_invocation(
        KEY, invocation_id="old", lease_owner="local:1", user_event=first, create_session=True
    )
    for n in range(1, MANY):
        event = Event(id=f"old.{n}", invocation_id="old", author="a", timestamp=1.0)
        await sessions.commit_event(KEY, event, invocation_id="old", epoch=record.epoch)
    await sessions.close_invocation(
        KEY, invocation_id="old", epoch=record.epoch, status=Status.COMPLETED
    )
    tools = [FunctionTool(pay, require_confirmation=True), LongRunningFunctionTool(order)]
    model = ScriptedModel(replies=list(replies))
    agent = LlmAgent(name="a", model=model, tools=tools)
    return Runner(session_service=sessions, app_name="app", agent=agent)


def response(pending: PendingCall, value: dict[str, Any]) -> types.Content:
    """The answer to a call."""
    given = types.FunctionResponse(id=pending.call_id, name=pending.name, response=value)
    return types.Content(role="user", parts=[types.Part(function_response=given)])


async def send(runner: Runner, message: str | types.Content, **options: Any) -> list[str]:
    """The texts that come of a message."""
    return [
        event.text
        async for event in runner.run_async(**USER, new_message=message, **options)
        if event.text
    ]


def counted(runner: Runner) -> int:
    """How many events were read since the last look."""
    sessions = runner.session_service
    assert isinstance(sessions, Sessions)
    read, sessions.read = sessions.read, 0
    return read


async def test_an_answer_reads_the_end_of_a_long_session() -> None:
    """I22: neither what waits nor an answer to it costs more because much was said before."""
    async with await runner_of(call("pay", amount=5), "Done.") as runner:
        await send(runner, "pay")
        counted(runner)
        (pending,) = await runner.pending(**USER)
        assert counted(runner) < 20
        answer = response(pending, {"confirmed": True})
        assert await send(runner, answer, invocation_id="mine") == ["Done."]
        in_all = counted(runner)
        assert in_all < MANY + 1000  # the run's own step makes sure of the session once
        assert await send(runner, answer, invocation_id="mine") == ["Done."]
        assert counted(runner) < 1000
        assert await runner.pending(**USER) == []
        assert counted(runner) == 0


async def test_a_later_update_reads_the_end_of_a_long_session() -> None:
    """TOL-41, I22: client and worker look for the call from the end of the session."""
    async with await runner_of(call("order"), "Ordered.") as runner:
        await send(runner, "order")
        (pending,) = await runner.pending(**USER)
        assert await send(runner, response(pending, {"it": "comes"})) == ["Ordered."]
        counted(runner)
        assert await send(runner, response(pending, {"it": "came"}))
        assert counted(runner) < 1000
