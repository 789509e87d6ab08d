"""Pauses an invocation, which releases its lease, and takes answers to its pending calls."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from google.genai import types

from durable_adk.activities.dependencies import Dependencies
from durable_adk.activities.invocation.checkpoint import state_as_of
from durable_adk.activities.invocation.queue import check_turn
from durable_adk.activities.lifecycle import resumed
from durable_adk.auth.redaction import without_secrets
from durable_adk.conversation.answers import Answer, answer_message, check_answers
from durable_adk.conversation.client_requests import REQUEST_CONFIRMATION
from durable_adk.conversation.pending_calls import FINAL_RESPONSES, pending_calls
from durable_adk.errors import InvalidRequestError, LeaseLostError, StateConflictError
from durable_adk.events.event import ANSWERED_BY, Event
from durable_adk.events.event_actions import EventActions
from durable_adk.failpoints import failpoint
from durable_adk.json_values import canonical
from durable_adk.sessions.lease_owner import ttl_of
from durable_adk.sessions.records import InvocationRecord, Status, StoredEvent
from durable_adk.wire.messages import EXPIRED, MAX_BYTES, is_reserved
from durable_adk.wire.steps import AnswerStep, AnswerTaken, PauseStep


async def pause_invocation(deps: Dependencies, step: PauseStep) -> Literal[False] | None:
    """Release the lease; a repeat changes nothing, even if the invocation has resumed since.

    A workflow task whose worker dies is replayed from its start with the same input. It may already
    have paused the invocation and then stored an answer that had arrived. A Temporal server that
    was restored from a backup has lost both as well; the doctor sends it the answer again (F38).

    Returns:
        None, or False if the invocation was not paused because its owner keeps running. The result
        is recorded, so a replay reads it from the history.
    """
    failpoint("pause.before")
    try:
        await deps.sessions.pause_invocation(
            step.key,
            invocation_id=step.invocation_id,
            epoch=step.epoch,
            revision=step.revision,
            awaits_message=step.awaits_message,
        )
    except LeaseLostError:
        record = await deps.sessions.get_invocation(step.key, step.invocation_id)
        if (
            record is None
            or record.lease_owner != step.lease_owner
            or record.status is Status.ABANDONED
        ):
            raise
        if record.status is Status.RUNNING and record.epoch == step.epoch:
            return False  # it continued after a later event
        if record.epoch <= step.epoch:
            raise
    failpoint("pause.after")
    return None


async def take_answer(deps: Dependencies, step: AnswerStep) -> AnswerTaken:
    """Check an answer against the history and store it; a repeat finds the first attempt's event.

    Raises:
        SessionBusyError: Another invocation is active in the session; retry.
        SessionRegressedError: The store is older than the run, which waits for its repair (I21).
    """
    await check_turn(deps, step)
    await deps.check_store(step.key)
    if not step.event_id:
        return await _lease_only(deps, step)
    if step.answer.steers is not None:
        taken = await _deliver(deps, step)
        state = await _state(deps, step, taken.seq or None, taken.delivered)
        return taken.model_copy(update={"state": state})
    stored = await deps.sessions.read_events(step.key, after=step.start_seq - 1)
    # Searched in the events that are checked: an attempt that was given up may store the answer
    # between two reads, and the call would appear to have another answer.
    found = next((item for item in stored if item.event.id == step.event_id), None)
    if found is not None:
        await _hold_again(deps, step)
        return await _taken(deps, step, found)
    try:
        _check_name(step)
        event = _event(step, [item.event for item in stored])
    except InvalidRequestError as error:
        return AnswerTaken(refused=error.message)
    failpoint("answer.before")
    try:
        try:
            await _store(deps, step, event)
        except LeaseLostError:
            await _store(deps, step, event)  # a late attempt of the pause intervened
    except StateConflictError as error:  # conflict with state that a plugin has written
        return AnswerTaken(refused=error.message)
    failpoint("answer.after")
    found = await deps.sessions.find_event(step.key, step.event_id)
    if found is None:  # the session was deleted concurrently
        raise LeaseLostError(f"The answer {step.event_id!r} is in the store no more.")
    return await _taken(deps, step, found)


def checked_answers(
    events: Sequence[Event],
    message: types.Content,
    statuses: Mapping[str, Status],
    *,
    invocation_id: str | None = None,
) -> list[Answer]:
    """Return the answers in a message, right before they are stored.

    `client/answers.py` judges answers for their senders. This checks them once more, because any
    program may send them by Temporal, and the session may have changed.

    Raises:
        InvalidRequestError: An answer matches no pending call (TRAP-28), or has a credential.
    """
    answers = check_answers(events, message, statuses=statuses, invocation_id=invocation_id)
    if not answers:
        raise InvalidRequestError("The message answers no call; send function responses.")
    for answer in answers:
        given = answer.credential
        if given is not None and without_secrets(given) != given:
            raise InvalidRequestError(
                "A credential must not travel through a workflow's history: answer through "
                "Runner or the command line, which put it into the credential service."
            )
    return answers


async def _leave_for_the_gone(deps: Dependencies, step: AnswerStep, steered: str) -> None:
    """Delete the ticket of a message whose workflow was terminated.

    Its sender saw the termination, so the message must not be delivered any more.
    """
    for ticket in await deps.sessions.waiting(step.key):
        if ticket.invocation_id == steered and not await deps.is_alive(ticket.lease_owner):
            await deps.sessions.leave_queue(
                step.key, invocation_id=steered, lease_owner=ticket.lease_owner
            )


async def _deliver(deps: Dependencies, step: AnswerStep) -> AnswerTaken:
    """Store a waiting message in the active invocation (D7); a repeat finds it stored.

    A message is either delivered or opens an invocation, never both: the transaction that removes
    its ticket decides. The notification names the message without carrying it, so one that reaches
    the wrong workflow finds nothing to deliver.

    A paused invocation, whose task agent waits for the message, takes the lease for it. The store
    decides whether it is paused: an attempt whose worker died may not have reported that.
    """
    failpoint("steer.before")
    steered = step.answer.steers or ""
    await _leave_for_the_gone(deps, step, steered)
    record = await deps.sessions.get_invocation(step.key, step.invocation_id)
    if record is not None and record.status is Status.PAUSED:
        record = await _resume(deps, step, record)
    epoch = _epoch(step, record)
    delivered = await deps.sessions.deliver_message(
        step.key,
        invocation_id=step.invocation_id,
        epoch=epoch,
        steered=steered,
        scope=step.scope,
    )
    failpoint("steer.after")
    if delivered is None:
        gone = "It waits no more: it runs by itself, or was withdrawn."
        return AnswerTaken(refused=gone, epoch=epoch)
    return AnswerTaken(epoch=epoch, seq=delivered.seq, delivered=delivered.event)


def _check_name(step: AnswerStep) -> None:
    """Raise InvalidRequestError if a sender chose an event name that the loop gives to answers."""
    name = step.answer.answer_id or ""
    if step.named and is_reserved(name):
        raise InvalidRequestError(
            f"answerId {name!r} is reserved: unnamed-<n>, malformed-<n> and names that end with "
            f"{EXPIRED!r} are given by the invocation itself; choose another."
        )


async def _store(deps: Dependencies, step: AnswerStep, event: Event) -> None:
    """Store an answer, taking the lease if the invocation is paused.

    The store decides whether it is: an attempt whose worker died may have paused the invocation
    without reporting it to the loop.
    """
    record = await deps.sessions.get_invocation(step.key, step.invocation_id)
    if record is not None and record.status is Status.PAUSED:
        await _resume(deps, step, record, event)
    else:
        await deps.sessions.commit_event(
            step.key, event, invocation_id=step.invocation_id, epoch=_epoch(step, record)
        )


async def _resume(
    deps: Dependencies, step: AnswerStep, record: InvocationRecord, event: Event | None = None
) -> InvocationRecord:
    """Take the lease for a paused invocation, and store the answer, if any, that resumes it."""
    taken = await deps.sessions.resume_invocation(
        step.key,
        invocation_id=step.invocation_id,
        lease_owner=step.lease_owner,
        user_event=event,
        ttl=ttl_of(step.lease_owner),
    )
    resumed(step.key, record)
    return taken


async def _hold_again(deps: Dependencies, step: AnswerStep) -> None:
    """Take the lease again for a stored answer if a repeat of the pause has released it.

    The epoch distinguishes the cases: a new pause after the answer has a later epoch than the step.
    """
    record = await deps.sessions.get_invocation(step.key, step.invocation_id)
    if record is not None and record.status is Status.PAUSED and record.epoch == step.epoch:
        await _lease_only(deps, step)


async def _lease_only(deps: Dependencies, step: AnswerStep) -> AnswerTaken:
    record = await deps.sessions.get_invocation(step.key, step.invocation_id)
    if record is not None and record.status is Status.PAUSED:
        record = await _resume(deps, step, record)
    return AnswerTaken(epoch=_epoch(step, record), state=await _state(deps, step))


def _epoch(step: AnswerStep, record: InvocationRecord | None) -> int:
    """Return the lease owner's current epoch, which the step lacks after an unreported pause."""
    return (
        record.epoch
        if record is not None and record.lease_owner == step.lease_owner
        else step.epoch
    )


async def _taken(deps: Dependencies, step: AnswerStep, found: StoredEvent) -> AnswerTaken:
    record = await deps.sessions.get_invocation(step.key, step.invocation_id)
    return AnswerTaken(
        epoch=record.epoch if record else step.epoch,
        seq=found.seq,
        state=await _state(deps, step, found.seq),
        call_ids=[response.id or "" for response in found.event.get_function_responses()],
    )


async def _state(
    deps: Dependencies, step: AnswerStep, seq: int | None = None, delivered: Event | None = None
) -> dict[str, Any] | None:
    """Return the session's state for the bodies of custom agents, or None if it is too large.

    Args:
        deps: The stores.
        step: Its `wants_state` decides whether the state is returned.
        seq: Number of the event that was stored, or None.
        delivered: The delivered message, which is sent in the same payload.
    """
    if not step.wants_state:
        return None
    if seq is None:
        _, state = await deps.sessions.read_state(step.key)
    else:
        name = step.invocation_id
        state = await state_as_of(deps, step.key, invocation_id=name, revision=seq)
    both = canonical(state) + (delivered.to_json() if delivered else "")
    return state if len(both.encode()) <= MAX_BYTES else None


def _event(step: AnswerStep, events: list[Event]) -> Event:
    """Build the event of an answer.

    Raises:
        InvalidRequestError: The answer matches no pending call (TRAP-28).
    """
    changed = step.changed or Event(
        content=_message(step, events),
        custom_metadata=step.answer.options().get("custom_metadata"),
        actions=EventActions(state_delta=step.answer.state_delta),
    )
    message = changed.content or types.Content()
    if step.author == "user":
        name, statuses = step.invocation_id, {step.invocation_id: Status.RUNNING}
        message = answer_message(checked_answers(events, message, statuses, invocation_id=name))
    answered = {response.id for part in message.parts or [] if (response := part.function_response)}
    asked = [event for event in events if _calls(event) & answered]
    branches = {event.branch for event in asked}
    return Event(
        id=step.event_id,
        invocation_id=step.invocation_id,
        author=step.author,
        timestamp=step.timestamp,
        content=message,
        # Sibling branches must not treat it as a message to them (AGT-33).
        branch=branches.pop() if len(branches) == 1 else None,
        actions=changed.actions,
        custom_metadata=_metadata(step, changed),
    )


def _metadata(step: AnswerStep, changed: Event) -> dict[str, Any] | None:
    if step.author != "user":
        return {FINAL_RESPONSES: True}
    by = step.answer.answered_by
    return {**(changed.custom_metadata or {}), **({ANSWERED_BY: by} if by else {})} or None


def _calls(event: Event) -> set[str | None]:
    return {call.id for call in event.get_function_calls()}


def _message(step: AnswerStep, events: list[Event]) -> types.Content:
    """Return the message as sent, or built from an answer by call id."""
    call = next((c for c in pending_calls(events) if c.call_id == step.answer.call_id), None)
    return step.answer.content(call.name if call else step.call_name or REQUEST_CONFIRMATION)
