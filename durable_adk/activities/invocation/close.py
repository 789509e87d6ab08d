"""Closes an invocation and leaves its session usable, however the run ended (CAN-2, I9).

Open calls are read from the store, not from the loop's memory: a step may have committed an event
whose result never reached the loop because its worker died. The same applies to an invocation that
another one takes over and closes.
"""

from durable_adk.activities.dependencies import Dependencies
from durable_adk.activities.invocation.queue import check_turn
from durable_adk.conversation.client_requests import CONTROL_FUNCTIONS, is_request
from durable_adk.conversation.nodes.events import result_text
from durable_adk.conversation.tool_responses import closing_responses, error_event
from durable_adk.errors import (
    EventConflictError,
    LeaseLostError,
    StaleSessionError,
    from_detail,
)
from durable_adk.events.event import Event
from durable_adk.failpoints import failpoint
from durable_adk.sessions.branch_end import UNFINISHED_BRANCHES, unfinished_in
from durable_adk.sessions.lease_owner import ttl_of
from durable_adk.sessions.records import UNFINISHED, InvocationRecord, Status, StoredEvent
from durable_adk.sessions.session import SessionKey
from durable_adk.wire.messages import MAX_RESULT_TEXT
from durable_adk.wire.steps import UNKNOWN_EPOCH, CloseStep, Ending

MAX_TRIES = 100
"""Maximum attempts to close. It exceeds the number of events that an invocation's running steps can
commit in between."""
ENDED = "The run ended before this call was answered, it may have run in part"
LEFT = "The agent was left before this call was answered; it may have run in part."


async def close_invocation(deps: Dependencies, step: CloseStep) -> Ending:
    """Answer open calls, store the error of a failed run and release the lease.

    Idempotent: ids are derived, and a closed invocation is not changed.

    Raises:
        SessionBusyError: The invocation ended while it was paused, so its open calls are answered
            once the session's active invocation has ended. Retry.
        SessionRegressedError: The store is older than the run, which waits for its repair (I21).
    """
    failpoint("close.before")
    if step.epoch == UNKNOWN_EPOCH:
        try:
            record = await _withdrawn(deps, step)
        except EventConflictError:
            delivered = await deps.sessions.delivered_event(step.key, step.invocation_id)
            # If no message was delivered, user code has written the id into a session that it had
            # deleted.
            name = delivered.invocation_id if delivered else None
            return _not_opened(step).model_copy(update={"delivered_to": name})
        if record is None or record.lease_owner != step.lease_owner:
            return _not_opened(step)
    else:
        record = await deps.sessions.get_invocation(step.key, step.invocation_id)
    if record is not None and record.status.closed and not record.sealed:
        await check_turn(deps, step)
    elif record is not None and record.status.closed and record.epoch >= step.epoch:
        # Already closed by a step's final text or by an earlier attempt of this activity.
        return await read_ending(deps, step.key, record)
    if record is not None and (_waits(record) or record.lease_owner != step.lease_owner):
        await deps.check_store(step.key)  # others may have written to it
    if record is not None and step.unfinished:
        body = UNFINISHED_BRANCHES.dump_json(step.unfinished, by_alias=True).decode()
        await deps.sessions.note(
            step.key, invocation_id=step.invocation_id, kind=UNFINISHED, name=UNFINISHED, body=body
        )
    record = await _closed(deps, step, record)
    failpoint("close.after")
    return Ending(record=record)


async def _closed(
    deps: Dependencies, step: CloseStep, record: InvocationRecord | None
) -> InvocationRecord:
    """Seal and close the invocation, retrying after concurrent writes.

    A step that was presumed dead may still commit, and its event counts. It may also pause the
    invocation or store an answer for it, which raises the epoch; closing then continues under the
    new epoch, which the step does not contain.
    """
    epoch = step.epoch
    if record is not None and record.lease_owner == step.lease_owner:
        epoch = record.epoch  # the step lacks it if the opening's result was lost
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
    """Seal and close in one transaction, so that no step can commit between the two (I9).

    Raises:
        StaleSessionError: Events were committed after the seals were derived.
    """
    seals: list[Event] = []
    revision: int | None = None
    error = None if step.error is None else dict(step.error)  # without the exception itself
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
            error=error,
            seals=seals,
            revision=revision,
        )
    return await deps.sessions.close_invocation(
        step.key,
        invocation_id=step.invocation_id,
        epoch=epoch,
        status=step.status,
        error=error,
        seals=seals,
        revision=revision,
    )


async def _withdrawn(deps: Dependencies, step: CloseStep) -> InvocationRecord | None:
    """Withdraw the opening and return the record that it stored, or None if it stored nothing.

    An attempt of the opening may still be running: Temporal gave up on it, or its worker was
    frozen. It must not open an invocation that was reported to its sender as ended.
    """
    of_whom = {"invocation_id": step.invocation_id, "lease_owner": step.lease_owner}
    if ttl_of(step.lease_owner) is None:
        failpoint("withdraw.before")
        record = await deps.sessions.withdraw_invocation(
            step.key, create_session=step.create_session, **of_whom
        )
        failpoint("withdraw.after")
        return record
    # In process no attempt remains running, and the same lease owner may open it again.
    await deps.sessions.leave_queue(step.key, **of_whom)
    return await deps.sessions.get_invocation(step.key, step.invocation_id)


def _not_opened(step: CloseStep) -> Ending:
    """Return the ending of an invocation that was cancelled before its opening stored anything."""
    record = InvocationRecord(
        invocation_id=step.invocation_id,
        status=step.status,
        epoch=UNKNOWN_EPOCH,
        lease_owner=step.lease_owner,
        start_seq=0,
    )
    return Ending(record=record)


def _waits(record: InvocationRecord) -> bool:
    """Return whether the invocation is closed without the lease: paused, or ended but not sealed.

    Read from the store, because the loop may not know: an attempt whose worker died may have paused
    the invocation.
    """
    return record.status is Status.PAUSED or (record.status.closed and not record.sealed)


async def read_ending(deps: Dependencies, key: SessionKey, record: InvocationRecord) -> Ending:
    """Read from the store how a closed invocation ended, with its counts."""
    stored = await deps.sessions.read_events(key, after=record.start_seq - 1, upto=record.end_seq)
    events = _own(stored, record)
    texts = [text for event in events[1:] if (text := result_text(event))]
    return Ending(
        record=record,
        unfinished=unfinished_in(
            await deps.sessions.read_notes(key, invocation_id=record.invocation_id, kind=UNFINISHED)
        ),
        text=texts[-1][:MAX_RESULT_TEXT] if texts else "",
        last_event_id=events[-1].id if events else None,
        events=len(events),
        # The loop derives a text event from a set_model_response call; it is not a model call.
        model_calls=sum(map(_is_model_answer, events))
        - sum(event.actions.set_model_response is not None for event in events),
        tool_calls=sum(map(_tool_calls, events)),
        tokens=sum(
            event.usage_metadata.total_token_count or 0 for event in events if event.usage_metadata
        ),
    )


def _own(stored: list[StoredEvent], record: InvocationRecord) -> list[Event]:
    """Return the invocation's own events.

    Other invocations may have run while it was paused, and some may still be paused.
    """
    events = [item.event for item in stored]
    return [event for event in events if event.invocation_id == record.invocation_id]


def _is_model_answer(event: Event) -> bool:
    """Return whether a model produced the event.

    Requests to the user and results of code execution have the role `model` too.
    """
    if event.content is None or event.has_trailing_code_execution_result():
        return False
    asks = any(is_request(event, call) for call in event.get_function_calls())
    return event.content.role == "model" and not asks


def _tool_calls(event: Event) -> int:
    """Count the tool runs of an event: the model's calls, plus reruns after a user's answer."""
    calls = event.get_function_calls() if event.author != "user" else []
    made = sum(not is_request(event, call) for call in calls)
    return made + sum(one.name in CONTROL_FUNCTIONS for one in event.get_function_responses())


def _tells(event: Event, end: Event) -> bool:
    """Return whether a node's event reports the error with which the run ends (GR-85)."""
    same = event.error_code == end.error_code
    told = event.error_message in (None, end.error_message)  # a model's may have none
    return bool(event.node_info.path) and same and told


def _seals(
    deps: Dependencies, step: CloseStep, stored: list[StoredEvent], record: InvocationRecord
) -> list[Event]:
    # If only the seals are missing, the stored error is final.
    error = from_detail((record.error if record.status.closed else step.error) or {})
    own = _own(stored, record)
    if step.status is Status.COMPLETED:
        late = {name for event in own for name in event.long_running_tool_ids or ()}
        events = closing_responses(own, LEFT, late)
    else:
        author = step.author or deps.registry.app(step.key.app_name).manifest().name
        end = error_event(error, invocation_id=step.invocation_id, author=author)
        reason = f"{ENDED}: {end.error_message}"
        same = not record.status.closed or record.error == step.error
        events = closing_responses(own, reason)
        if not any(_tells(event, end) for event in own):
            events.append(step.event if step.event and same else end)
    # Keep what an earlier attempt stored, even if it reported another reason.
    known = {item.event.id for item in stored}
    events = [event for event in events if event.id not in known]
    for event in events:
        event.invocation_id, event.timestamp = step.invocation_id, step.timestamp
    return events
