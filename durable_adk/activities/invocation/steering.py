"""Steering: delivers a message to the session's active invocation instead of starting one (D7).

A message is either delivered or opens an invocation, never both: the transaction that removes its
ticket decides. The notification names the message without carrying it, so a notification that
reaches the wrong workflow finds nothing to deliver.
"""

from durable_adk.activities.dependencies import Dependencies
from durable_adk.conversation.sent_message import is_same_message
from durable_adk.errors import EventConflictError
from durable_adk.events.event import Event
from durable_adk.failpoints import failpoint
from durable_adk.sessions.records import InvocationRecord
from durable_adk.sessions.session import SessionKey
from durable_adk.sessions.session_log import SessionLog
from durable_adk.wire.messages import InvocationAnswer, WhenBusy
from durable_adk.wire.steps import AnswerStep, AnswerTaken, OpenStep

NOTIFIED = "steerTold"
"""Kind of the notes that record which messages the active invocation was notified of."""


def is_steering(step: OpenStep) -> bool:
    """Return whether the message may be delivered to the active invocation.

    A late update of a call (TOL-41) may not: it is addressed to the agent that made the call.
    """
    updates = any(part.function_response for part in step.message.parts or [])
    return step.when_busy is WhenBusy.STEER and not updates


async def notify_active(deps: Dependencies, step: OpenStep, active: InvocationRecord) -> None:
    """Notify the active invocation of a waiting message; once, unless a worker crashes.

    Every attempt of the opening calls this. If a worker dies before it writes the note, the active
    invocation is notified again and ignores the duplicate.
    """
    name, holds = step.invocation_id, active.invocation_id
    if await deps.sessions.read_notes(step.key, invocation_id=holds, kind=NOTIFIED, name=name):
        return
    answer = InvocationAnswer(steers=name, answer_id=name)
    await deps.steer(step.key, active, answer)
    failpoint("steer.told")
    await deps.sessions.note(step.key, invocation_id=holds, kind=NOTIFIED, name=name, body="true")


async def delivered_to(deps: Dependencies, step: OpenStep, conflict: EventConflictError) -> str:
    """Return the id of the invocation that received an opening's message; it may have ended.

    Raises:
        EventConflictError: The given conflict, if no invocation received this message.
    """
    event = await delivered_event(deps.sessions, step.key, step.invocation_id)
    if event is None or not is_same_message(event, step.message, step.custom_metadata):
        raise conflict
    return event.invocation_id


async def delivered_event(
    sessions: SessionLog, key: SessionKey, invocation_id: str
) -> Event | None:
    """Return the event as which another invocation received a message, or None."""
    stored = await sessions.find_event(key, f"{invocation_id}.0")
    if stored is None or stored.event.invocation_id == invocation_id:
        return None
    return stored.event


async def _leave_for_the_gone(deps: Dependencies, step: AnswerStep, steered: str) -> None:
    """Delete the ticket of a message whose workflow was terminated.

    Its sender saw the termination, so the message must not be delivered any more.
    """
    for ticket in await deps.sessions.waiting(step.key):
        if ticket.invocation_id == steered and not await deps.is_alive(ticket.lease_owner):
            await deps.sessions.leave_queue(
                step.key, invocation_id=steered, lease_owner=ticket.lease_owner
            )


async def deliver(deps: Dependencies, step: AnswerStep) -> AnswerTaken:
    """Store a waiting message in the active invocation; a repeat finds it stored."""
    failpoint("steer.before")
    steered = step.answer.steers or ""
    await _leave_for_the_gone(deps, step, steered)
    heard = await deps.sessions.hear(
        step.key, invocation_id=step.invocation_id, epoch=step.epoch, steered=steered
    )
    failpoint("steer.after")
    if heard is None:
        return AnswerTaken(refused="It waits no more: it runs by itself, or was withdrawn.")
    return AnswerTaken(epoch=step.epoch, seq=heard.seq, heard=heard.event)
