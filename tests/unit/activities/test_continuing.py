"""What a run reads that goes on where another one stopped."""

from durable_adk.activities.continuing import read_traces, save_trace
from durable_adk.activities.world import World
from durable_adk.apps import AppRegistry
from durable_adk.continuation import SaveTraceStep, TracePage, TraceStep, packed
from durable_adk.events import Event
from durable_adk.sessions import InMemorySessionService, SessionKey, Status

KEY = SessionKey("app", "u", "s")
STEP = TraceStep(key=KEY, invocation_id="i", bodies=["b"], upto=1)
KEPT = packed('["b", []]')


async def test_the_notes_of_what_has_ended_are_not_taken_for_none() -> None:
    """D10, I2: they are removed with the end, and a body that was given nothing begins anew."""
    world = World(registry=AppRegistry([]), sessions=InMemorySessionService())
    message = Event(id="i.0", invocation_id="i", author="user", timestamp=1.0)
    record = await world.sessions.open_invocation(
        KEY, invocation_id="i", holder="h", user_event=message, create_session=True
    )
    kept = SaveTraceStep(key=KEY, invocation_id="i", number=1, index=0, body="b", trace=KEPT)
    await save_trace(world, kept)
    assert await read_traces(world, STEP) == TracePage(traces=[KEPT])
    await world.sessions.close_invocation(
        KEY, invocation_id="i", epoch=record.epoch, status=Status.COMPLETED
    )
    page = await read_traces(world, STEP)
    assert page.traces == []
    assert page.ending is not None
    assert page.ending.record.status is Status.COMPLETED
