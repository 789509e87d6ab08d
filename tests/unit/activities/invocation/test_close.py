"""How invocations end."""

import pytest
from google.genai import types

from durable_adk.activities.dependencies import Dependencies
from durable_adk.activities.invocation.close import UNKNOWN_EPOCH, close_invocation, read_ending
from durable_adk.apps import AppRegistry
from durable_adk.conversation.client_requests import REQUEST_CONFIRMATION
from durable_adk.errors import (
    InvocationCancelledError,
    InvocationTerminatedError,
    ToolError,
    as_detail,
)
from durable_adk.events import Event, EventActions
from durable_adk.sessions import InMemorySessionService, SessionKey, Status
from durable_adk.wire.steps import CloseStep

KEY = SessionKey("app", "u", "s")


def step(status: Status, error: Exception) -> CloseStep:
    """End invocation e-1."""
    return CloseStep(
        key=KEY, invocation_id="e-1", epoch=1, status=status, author="a", timestamp=1.0,
        error=as_detail(error),
    )  # fmt: skip


async def test_an_ending_that_was_begun_is_finished_by_the_next() -> None:
    """D7: the error event of the first stays; the second, for another reason, closes."""
    sessions = InMemorySessionService()
    deps = Dependencies(registry=AppRegistry([]), sessions=sessions)
    message = Event(id="e-1.0", invocation_id="e-1", author="user", timestamp=1.0)
    await sessions.open_invocation(
        KEY, invocation_id="e-1", lease_owner="h", user_event=message, create_session=True
    )
    # The first ending stored its error event; then its worker and its workflow were gone.
    begun = Event(id="e-1.end", invocation_id="e-1", author="a", error_code="ToolError")
    await sessions.commit_event(KEY, begun, invocation_id="e-1", epoch=1)
    ending = await close_invocation(deps, step(Status.ABANDONED, InvocationTerminatedError()))
    assert ending.record.status is Status.ABANDONED
    stored = await sessions.read_events(KEY)
    assert [item.event.error_code for item in stored] == [None, "ToolError"]


def calling(invocation_id: str, *, name: str = "order") -> Event:
    """An agent's event with a call that waits for an answer."""
    call = types.FunctionCall(id=f"{invocation_id}-call", name=name, args={})
    return Event(
        id=f"{invocation_id}.1",
        invocation_id=invocation_id,
        author="a",
        content=types.Content(role="model", parts=[types.Part(function_call=call)]),
        long_running_tool_ids={f"{invocation_id}-call"},
    )


async def paused(sessions: InMemorySessionService, invocation_id: str, call: Event) -> int:
    """An invocation that waits; its epoch."""
    message = Event(id=f"{invocation_id}.0", invocation_id=invocation_id, author="user")
    message.timestamp = 1.0
    ids = {"invocation_id": invocation_id}
    record = await sessions.open_invocation(
        KEY, **ids, lease_owner="h", user_event=message, create_session=True
    )
    await sessions.commit_event(KEY, call, **ids, epoch=record.epoch)
    await sessions.pause_invocation(KEY, **ids, epoch=record.epoch)
    return record.epoch


async def test_what_others_wait_for_is_not_sealed() -> None:
    """D9, I9: two invocations wait; the end of the first answers only its own call."""
    sessions = InMemorySessionService()
    deps = Dependencies(registry=AppRegistry([]), sessions=sessions)
    epoch = await paused(sessions, "e-1", calling("e-1"))
    await paused(sessions, "e-2", calling("e-2"))
    end = step(Status.CANCELLED, InvocationCancelledError())
    await close_invocation(deps, end.model_copy(update={"epoch": epoch, "paused": True}))
    stored = [item.event for item in await sessions.read_events(KEY)]
    assert [event.id for event in stored[4:]] == ["e-1.1.sealed", "e-1.end"]
    answered = {item.id for event in stored for item in event.get_function_responses()}
    assert answered == {"e-1-call"}
    record = await sessions.get_invocation(KEY, "e-1")
    assert record
    ending = await read_ending(deps, KEY, record)
    assert (ending.events, ending.model_calls, ending.tool_calls) == (4, 1, 1)


async def test_a_request_to_the_user_is_no_model_call() -> None:
    """FLW-20: it has a model's role, but the loop made it."""
    sessions = InMemorySessionService()
    deps = Dependencies(registry=AppRegistry([]), sessions=sessions)
    await paused(sessions, "e-1", calling("e-1", name=REQUEST_CONFIRMATION))
    record = await sessions.get_invocation(KEY, "e-1")
    assert record
    assert (await read_ending(deps, KEY, record)).model_calls == 0


async def test_what_is_made_of_an_answer_is_no_model_call() -> None:
    """FLW-90, AGT-19: results of code, and the text for an answer by call, are nobody's answers."""
    sessions = InMemorySessionService()
    deps = Dependencies(registry=AppRegistry([]), sessions=sessions)
    epoch = await paused(sessions, "e-1", calling("e-1"))
    await sessions.resume_invocation(KEY, invocation_id="e-1", lease_owner="h", user_event=None)
    result = types.Part.from_code_execution_result(outcome=types.Outcome.OUTCOME_OK, output="1")
    made = [
        Event(content=types.Content(role="model", parts=[result])),
        Event(actions=EventActions(set_model_response=1)),
        Event(content=types.Content(role="model", parts=[types.Part(text="1")])),
    ]
    for number, event in enumerate(made, 2):
        event.id, event.invocation_id, event.author = f"e-1.{number}", "e-1", "a"
        await sessions.commit_event(KEY, event, invocation_id="e-1", epoch=epoch + 1)
    record = await sessions.get_invocation(KEY, "e-1")
    assert record
    assert (await read_ending(deps, KEY, record)).model_calls == 1


async def test_how_an_invocation_ended_stands() -> None:
    """I1: a failure that arrives after the end changes nothing."""
    sessions = InMemorySessionService()
    deps = Dependencies(registry=AppRegistry([]), sessions=sessions)
    message = Event(id="e-1.0", invocation_id="e-1", author="user", timestamp=1.0)
    await sessions.open_invocation(
        KEY, invocation_id="e-1", lease_owner="h", user_event=message, create_session=True
    )
    await sessions.close_invocation(KEY, invocation_id="e-1", epoch=1, status=Status.COMPLETED)
    ending = await close_invocation(deps, step(Status.FAILED, ToolError("late")))
    assert ending.record.status is Status.COMPLETED
    assert len(await sessions.read_events(KEY)) == 1


async def test_an_opening_that_was_given_up_does_not_open_after_the_end() -> None:
    """I11, CAN-1: the end is reported before its attempt reaches the store, which refuses it."""
    sessions = InMemorySessionService()
    deps = Dependencies(registry=AppRegistry([]), sessions=sessions)
    await sessions.create_session(app_name="app", user_id="u", session_id="s")
    end = step(Status.CANCELLED, InvocationCancelledError())
    unopened = end.model_copy(update={"epoch": UNKNOWN_EPOCH, "lease_owner": "temporal:n:r:w"})
    ending = await close_invocation(deps, unopened)
    message = Event(id="e-1.0", invocation_id="e-1", author="user", timestamp=1.0)
    with pytest.raises(InvocationCancelledError):
        await sessions.open_invocation(
            KEY, invocation_id="e-1", lease_owner="temporal:n:r:w", user_event=message
        )
    assert ending.record.status is Status.CANCELLED
    assert await sessions.read_events(KEY) == []
    assert await sessions.active_invocation(KEY) is None


async def test_a_call_that_was_approved_counts_as_the_loop_counts_it() -> None:
    """RUN-3: once when it asks and once when it runs; the user's answer is no call of a tool."""
    sessions = InMemorySessionService()
    deps = Dependencies(registry=AppRegistry([]), sessions=sessions)
    epoch = await paused(sessions, "e-1", calling("e-1"))
    await sessions.resume_invocation(KEY, invocation_id="e-1", lease_owner="h", user_event=None)
    about = {"id": "r", "name": REQUEST_CONFIRMATION}
    asked = types.Part(function_call=types.FunctionCall(**about))
    said = types.Part(function_response=types.FunctionResponse(**about, response={}))
    done = types.Part.from_function_response(name="tool", response={})
    for number, (author, part) in enumerate([("a", done), ("a", asked), ("user", said)], 2):
        event = Event(id=f"e-1.{number}", invocation_id="e-1", author=author)
        event.content = types.Content(role="user", parts=[part])
        event.long_running_tool_ids = {"r"} if part is asked else None
        await sessions.commit_event(KEY, event, invocation_id="e-1", epoch=epoch + 1)
    record = await sessions.get_invocation(KEY, "e-1")
    assert record
    assert (await read_ending(deps, KEY, record)).tool_calls == 2


async def test_a_message_that_user_code_has_appended_is_none_that_was_heard() -> None:
    """I11: who clears a session and appends its messages again takes no end from the old run."""
    sessions = InMemorySessionService()
    deps = Dependencies(registry=AppRegistry([]), sessions=sessions)
    session = await sessions.create_session(app_name="app", user_id="u", session_id="s")
    await sessions.append_event(session, Event(id="e-1.0", invocation_id="e-1", author="user"))
    end = step(Status.FAILED, InvocationCancelledError()).model_copy(
        update={"epoch": UNKNOWN_EPOCH}
    )
    ending = await close_invocation(deps, end)
    assert (ending.delivered_to, ending.record.status) == (None, Status.FAILED)
