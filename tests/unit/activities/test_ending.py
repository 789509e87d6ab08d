"""How invocations end."""

from durable_adk.activities.ending import close_invocation
from durable_adk.activities.world import World
from durable_adk.apps import AppRegistry
from durable_adk.errors import InvocationTerminatedError, ToolError, as_detail
from durable_adk.events import Event
from durable_adk.payloads import CloseStep
from durable_adk.sessions import InMemorySessionService, SessionKey, Status

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
    world = World(registry=AppRegistry([]), sessions=sessions)
    message = Event(id="e-1.0", invocation_id="e-1", author="user", timestamp=1.0)
    await sessions.open_invocation(
        KEY, invocation_id="e-1", holder="h", user_event=message, create_session=True
    )
    # The first ending stored its error event; then its worker and its workflow were gone.
    begun = Event(id="e-1.end", invocation_id="e-1", author="a", error_code="ToolError")
    await sessions.commit_event(KEY, begun, invocation_id="e-1", epoch=1)
    ending = await close_invocation(world, step(Status.ABANDONED, InvocationTerminatedError()))
    assert ending.record.status is Status.ABANDONED
    stored = await sessions.read_events(KEY)
    assert [item.event.error_code for item in stored] == [None, "ToolError"]


async def test_how_an_invocation_ended_stands() -> None:
    """I1: a failure that is heard of after the end changes nothing."""
    sessions = InMemorySessionService()
    world = World(registry=AppRegistry([]), sessions=sessions)
    message = Event(id="e-1.0", invocation_id="e-1", author="user", timestamp=1.0)
    await sessions.open_invocation(
        KEY, invocation_id="e-1", holder="h", user_event=message, create_session=True
    )
    await sessions.close_invocation(KEY, invocation_id="e-1", epoch=1, status=Status.COMPLETED)
    ending = await close_invocation(world, step(Status.FAILED, ToolError("late")))
    assert ending.record.status is Status.COMPLETED
    assert len(await sessions.read_events(KEY)) == 1
