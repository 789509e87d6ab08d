"""Closes an invocation and leaves its session usable, whatever happened (CAN-2, I9).

The open calls are read from the store and not from the loop's memory: a step may have committed
an event that the loop never learned of, because its worker died. The same holds for an invocation
that was taken over, which is closed by the one that takes over.
"""

from durable_adk.activities.commit.staleness import require_known
from durable_adk.activities.dependencies import Dependencies
from durable_adk.activities.invocation.steering import delivered_event
from durable_adk.activities.invocation.waiting import check_turn
from durable_adk.conversation.client_requests import CONTROL_FUNCTIONS
from durable_adk.conversation.tool_responses import closing_responses
from durable_adk.errors import (
    EventConflictError,
    InvocationCancelledError,
    LeaseLostError,
    StaleSessionError,
    describe,
    from_detail,
)
from durable_adk.events.event import Event
from durable_adk.failpoints import failpoint
from durable_adk.sessions.lease_owner import ttl_of
from durable_adk.sessions.records import InvocationRecord, Status, StoredEvent
from durable_adk.sessions.session import SessionKey
from durable_adk.wire.messages import MAX_RESULT_TEXT
from durable_adk.wire.steps import UNKNOWN_EPOCH, CloseStep, Ending

ABORTED = "INVOCATION_ABORTED"
MAX_TRIES = 100
"""More events than the steps of one invocation that are under way can have."""
LEFT = "The agent was left before this call was answered; it may have run in part."


async def close_invocation(deps: Dependencies, step: CloseStep) -> Ending:
    """Answer open calls, store why the run ended if it failed, give the lease back.

    A repeat changes nothing: ids are derived, and a closed invocation stays as it is.

    Raises:
        SessionBusyError: It was paused, and has ended; its open calls are answered when the other
            invocation of the session has ended. Try again.
        SessionRegressedError: The store is older than the run, which waits for its repair (I21).
    """
    failpoint("close.before")
    if step.epoch == UNKNOWN_EPOCH:
        try:
            record = await _withdrawn(deps, step)
        except EventConflictError:
            heard = await delivered_event(deps.sessions, step.key, step.invocation_id)
            # If nobody has, user code has written it: into a session that it had deleted.
            name = heard.invocation_id if heard else None
            return _not_opened(step).model_copy(update={"heard_by": name})
        if record is None or record.lease_owner != step.lease_owner:
            return _not_opened(step)
    else:
        record = await deps.sessions.get_invocation(step.key, step.invocation_id)
    if record is not None and record.status.closed and not record.sealed:
        await check_turn(deps, step)
    elif record is not None and record.status.closed and record.epoch >= step.epoch:
        # A step's final text has closed it, or an earlier attempt of this.
        return await read_ending(deps, step.key, record)
    await require_known(
        deps, step.key, step.invocation_id, epoch=step.epoch, revision=step.revision
    )
    record = await _closed(deps, step, record)
    failpoint("close.after")
    return Ending(record=record)


async def _closed(
    deps: Dependencies, step: CloseStep, record: InvocationRecord | None
) -> InvocationRecord:
    """Seal and close, whatever comes in between.

    A step that was taken for dead may commit, and what it has stored counts; or it may pause the
    invocation, or take an answer for it, and then this goes on under an epoch that it does not
    know.
    """
    epoch = step.epoch
    if record is not None and record.lease_owner == step.lease_owner:
        epoch = record.epoch  # also if it is not known, because the opening's result was lost
    for _ in range(MAX_TRIES):
        try:
            return await _sealed(deps, step, record, epoch)
        except StaleSessionError:
            continue
        except LeaseLostError:
            record = await deps.sessions.get_invocation(step.key, step.invocation_id)
            if record is None or record.lease_owner != step.lease_owner:
                raise
            if not _waits(record) and record.epoch <= epoch:
                raise
            epoch = record.epoch
    return await _sealed(deps, step, record, epoch)


async def _sealed(
    deps: Dependencies, step: CloseStep, record: InvocationRecord | None, epoch: int
) -> InvocationRecord:
    """Seal and close in one transaction: none of its steps can commit between the two (I9).

    Raises:
        StaleSessionError: There are events that the seals do not know of.
    """
    seals: list[Event] = []
    revision: int | None = None
    if (step.status is not Status.COMPLETED or step.seals) and record is not None:
        stored = await deps.sessions.read_events(step.key, after=record.start_seq)
        revision = stored[-1].seq if stored else record.start_seq
        seals = _seals(deps, step, stored, record)
    if record is not None and _waits(record):
        return await deps.sessions.close_paused(
            step.key,
            invocation_id=step.invocation_id,
            epoch=record.epoch,
            status=step.status,
            error=step.error,
            seals=seals,
            revision=revision,
        )
    return await deps.sessions.close_invocation(
        step.key,
        invocation_id=step.invocation_id,
        epoch=epoch,
        status=step.status,
        error=step.error,
        seals=seals,
        revision=revision,
    )


async def _withdrawn(deps: Dependencies, step: CloseStep) -> InvocationRecord | None:
    """What the opening has stored; None: nothing.

    An attempt at it may still be under way: the engine has only given it up, or its worker was
    frozen. It must not open what its sender is told is over.
    """
    of_whom = {"invocation_id": step.invocation_id, "lease_owner": step.lease_owner}
    if ttl_of(step.lease_owner) is None:
        failpoint("withdraw.before")
        record = await deps.sessions.withdraw_invocation(
            step.key, create_session=step.create_session, **of_whom
        )
        failpoint("withdraw.after")
        return record
    # In process no attempt is left over; and the same lease owner may be asked for it again.
    await deps.sessions.leave_queue(step.key, **of_whom)
    return await deps.sessions.get_invocation(step.key, step.invocation_id)


def _not_opened(step: CloseStep) -> Ending:
    """The end of an invocation that was cancelled before its opening had stored anything."""
    record = InvocationRecord(
        invocation_id=step.invocation_id,
        status=step.status,
        epoch=UNKNOWN_EPOCH,
        lease_owner=step.lease_owner,
        start_seq=0,
    )
    return Ending(record=record)


def _waits(record: InvocationRecord) -> bool:
    """Whether the invocation is to be ended without the lease: paused, or ended but for its seals.

    Told by the store, as the loop may not know: an attempt whose worker died may have paused it.
    """
    return record.status is Status.PAUSED or (record.status.closed and not record.sealed)


async def read_ending(deps: Dependencies, key: SessionKey, record: InvocationRecord) -> Ending:
    """How a closed invocation ended, with its counts, read from the store."""
    stored = await deps.sessions.read_events(key, after=record.start_seq - 1, upto=record.end_seq)
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
        tool_calls=sum(map(_tool_calls, events)),
        tokens=sum(
            event.usage_metadata.total_token_count or 0 for event in events if event.usage_metadata
        ),
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


def _tool_calls(event: Event) -> int:
    """How many calls it had run: those of a model, and again those that waited for its answer."""
    calls = event.get_function_calls() if event.author != "user" else []
    made = sum(call.name not in CONTROL_FUNCTIONS for call in calls)
    return made + sum(one.name in CONTROL_FUNCTIONS for one in event.get_function_responses())


def _seals(
    deps: Dependencies, step: CloseStep, stored: list[StoredEvent], record: InvocationRecord
) -> list[Event]:
    # How it ended stands, if only its seals are missing.
    error = from_detail((record.error if record.status.closed else step.error) or {})
    code, message = describe(error)
    if isinstance(error, InvocationCancelledError):
        code = ABORTED
    reason = f"The run ended before this call was answered, it may have run in part: {message}"
    own = _own(stored, record)
    if step.status is Status.COMPLETED:
        late = {name for event in own for name in event.long_running_tool_ids or ()}
        events = closing_responses(own, LEFT, late)
    else:
        end = Event(
            id=f"{step.invocation_id}.end",
            author=step.author or deps.registry.app(step.key.app_name).manifest().name,
            error_code=code,
            error_message=message,
        )
        events = [*closing_responses(own, reason), end]
    # What an earlier ending has stored stays, also if that one gave another reason.
    known = {item.event.id for item in stored}
    events = [event for event in events if event.id not in known]
    for event in events:
        event.invocation_id, event.timestamp = step.invocation_id, step.timestamp
    return events
