"""How an invocation ends: its session is left usable, whatever happened (CAN-2, I9).

What has to be sealed is read from the store and not taken from the loop's memory: a step may have
committed an event that the loop never heard of, because its worker died. The same goes for an
invocation that was taken over: whoever takes over seals it.
"""

from durable_adk.activities.world import World
from durable_adk.errors import InvocationCancelledError, describe, from_detail
from durable_adk.events.event import Event
from durable_adk.failpoints import failpoint
from durable_adk.flows.contents import CONTROL_FUNCTIONS
from durable_adk.flows.merge import unanswered
from durable_adk.holders import ttl_of
from durable_adk.messages import MAX_RESULT_TEXT
from durable_adk.payloads import CloseStep, Ending
from durable_adk.sessions.base_session_service import InvocationRecord, Status, StoredEvent
from durable_adk.sessions.session import SessionKey

ABORTED = "INVOCATION_ABORTED"
LEFT = "The agent was left before this call was answered; it may have run in part."


async def close_invocation(world: World, step: CloseStep) -> Ending:
    """Answer open calls, store why the run ended if it failed, give the lease back.

    A repeat changes nothing: ids are derived, and a closed invocation stays as it is.
    """
    failpoint("close.before")
    record = await world.sessions.get_invocation(step.key, step.invocation_id)
    if record is not None and record.status.closed and record.epoch >= step.epoch:
        # A step's final text has closed it, or an earlier attempt of this.
        return await ending_of(world, step.key, record)
    epoch = await _epoch(world, step, record) if record is not None else step.epoch
    if (step.status is not Status.COMPLETED or step.seals) and record is not None:
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


async def _epoch(world: World, step: CloseStep, record: InvocationRecord) -> int:
    """The epoch under which the invocation may be ended; it takes the lease if that was paused.

    Told by the store, as the loop may not know: an attempt whose worker died may have paused the
    invocation, or taken an answer for it.
    """
    if record.status is not Status.PAUSED:
        return record.epoch if record.holder == step.holder else step.epoch
    resumed = await world.sessions.resume_invocation(
        step.key,
        invocation_id=step.invocation_id,
        holder=record.holder,
        user_event=None,
        ttl=ttl_of(record.holder),
    )
    return resumed.epoch


async def ending_of(world: World, key: SessionKey, record: InvocationRecord) -> Ending:
    """What the loop would know of a closed invocation if it had been there."""
    stored = await world.sessions.read_events(key, after=record.start_seq - 1, upto=record.end_seq)
    events = _own(stored, record)
    texts = [event.text for event in events[1:] if event.is_final_response() and event.text]
    return Ending(
        record=record,
        text=texts[-1][:MAX_RESULT_TEXT] if texts else "",
        last_event_id=events[-1].id if events else None,
        events=len(events),
        # The text that says again what came as a call is the loop's.
        model_calls=sum(map(_is_model_answer, events))
        - sum(event.actions.set_model_response is not None for event in events),
        tool_calls=sum(len(event.get_function_responses()) for event in events),
    )


def _own(stored: list[StoredEvent], record: InvocationRecord) -> list[Event]:
    """The invocation's events: while it was paused others may have run, and may still wait."""
    events = [item.event for item in stored]
    return [event for event in events if event.invocation_id == record.invocation_id]


def _is_model_answer(event: Event) -> bool:
    """Whether a model made it; requests to the user and results of code have its role as well."""
    if event.content is None or event.has_trailing_code_execution_result():
        return False
    asked = {call.name for call in event.get_function_calls()}
    return event.content.role == "model" and not asked & CONTROL_FUNCTIONS


async def _seals(world: World, step: CloseStep, record: InvocationRecord) -> list[Event]:
    stored = await world.sessions.read_events(step.key, after=record.start_seq)
    error = from_detail(step.error or {})
    code, message = describe(error)
    if isinstance(error, InvocationCancelledError):
        code = ABORTED
    reason = f"The run ended before this call was answered, it may have run in part: {message}"
    own = _own(stored, record)
    if step.status is Status.COMPLETED:
        late = {name for event in own for name in event.long_running_tool_ids or ()}
        events = unanswered(own, LEFT, late)
    else:
        end = Event(
            id=f"{step.invocation_id}.end",
            author=step.author,
            error_code=code,
            error_message=message,
        )
        events = [*unanswered(own, reason), end]
    # What an earlier ending has stored stays, also if that one gave another reason.
    known = {item.event.id for item in stored}
    events = [event for event in events if event.id not in known]
    for event in events:
        event.invocation_id, event.timestamp = step.invocation_id, step.timestamp
    return events
