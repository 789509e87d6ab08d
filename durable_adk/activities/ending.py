"""How an invocation ends: its session is left usable, whatever happened (CAN-2, I9).

What has to be sealed is read from the store and not taken from the loop's memory: a step may have
committed an event that the loop never heard of, because its worker died. The same goes for an
invocation that was taken over: whoever takes over seals it.
"""

from durable_adk.activities.world import World
from durable_adk.errors import InvocationCancelledError, describe, from_detail
from durable_adk.events.event import Event
from durable_adk.failpoints import failpoint
from durable_adk.flows.merge import unanswered
from durable_adk.messages import MAX_RESULT_TEXT
from durable_adk.payloads import CloseStep, Ending
from durable_adk.sessions.base_session_service import InvocationRecord, Status
from durable_adk.sessions.session import SessionKey

ABORTED = "INVOCATION_ABORTED"


async def close_invocation(world: World, step: CloseStep) -> Ending:
    """Answer open calls, store why the run ended if it failed, give the lease back.

    A repeat changes nothing: ids are derived, and a closed invocation stays as it is.
    """
    failpoint("close.before")
    record = await world.sessions.get_invocation(step.key, step.invocation_id)
    if record is not None and record.status.closed and record.epoch >= step.epoch:
        # A step's final text has closed it, or an earlier attempt of this.
        return await ending_of(world, step.key, record)
    epoch = step.epoch
    if step.paused and record is not None:
        # A repeat finds itself the holder already.
        resumed = await world.sessions.resume_invocation(
            step.key, invocation_id=step.invocation_id, holder=record.holder, user_event=None
        )
        epoch = resumed.epoch
    if step.status is not Status.COMPLETED and record is not None:
        for event in await _seals(world, step, record):
            await world.sessions.commit_event(
                step.key, event, invocation_id=step.invocation_id, epoch=epoch
            )
    record = await world.sessions.close_invocation(
        step.key,
        invocation_id=step.invocation_id,
        epoch=epoch,
        status=step.status,
        error=step.error,
    )
    failpoint("close.after")
    return Ending(record=record)


async def ending_of(world: World, key: SessionKey, record: InvocationRecord) -> Ending:
    """What the loop would know of a closed invocation if it had been there."""
    stored = await world.sessions.read_events(key, after=record.start_seq - 1, upto=record.end_seq)
    events = [item.event for item in stored]
    texts = [event.text for event in events[1:] if event.is_final_response() and event.text]
    return Ending(
        record=record,
        text=texts[-1][:MAX_RESULT_TEXT] if texts else "",
        last_event_id=events[-1].id if events else None,
        events=len(events),
        model_calls=sum(bool(e.content and e.content.role == "model") for e in events),
        tool_calls=sum(len(event.get_function_responses()) for event in events),
    )


async def _seals(world: World, step: CloseStep, record: InvocationRecord) -> list[Event]:
    stored = await world.sessions.read_events(step.key, after=record.start_seq)
    error = from_detail(step.error or {})
    code, message = describe(error)
    if isinstance(error, InvocationCancelledError):
        code = ABORTED
    reason = f"The run ended before this call was answered, it may have run in part: {message}"
    events = unanswered([item.event for item in stored], reason)
    events.append(
        Event(
            id=f"{step.invocation_id}.end",
            author=step.author,
            error_code=code,
            error_message=message,
        )
    )
    # What an earlier ending has stored stays, also if that one gave another reason.
    known = {item.event.id for item in stored}
    events = [event for event in events if event.id not in known]
    for event in events:
        event.invocation_id, event.timestamp = step.invocation_id, step.timestamp
    return events
