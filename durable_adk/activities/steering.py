"""Messages that the active invocation of a session hears, in place of one of their own (D7).

A message is heard, or opens an invocation, and never both: either way it is stored as the event
that is named after it, and the store takes an event's id once.
"""

import uuid

from durable_adk.activities.world import World
from durable_adk.errors import EventConflictError
from durable_adk.events.event import Event
from durable_adk.events.event_actions import EventActions
from durable_adk.failpoints import failpoint
from durable_adk.messages import InvocationAnswer
from durable_adk.payloads import AnswerStep, AnswerTaken, OpenStep
from durable_adk.sessions.records import InvocationRecord

SENT, HEARD = "steerSent", "steerHeard"
"""Kinds of the active invocation's notes: what was signalled to it, and what it has stored."""


async def steer(world: World, step: OpenStep, active: InvocationRecord) -> str | None:
    """Hand an opening's message to the active invocation, once; its id if it has heard it.

    Asked again with every attempt of the opening. The note comes before the signal: if the worker
    dies between the two the message is not handed over, and waits for its turn.
    """
    name, holds = step.invocation_id, active.invocation_id
    if await world.sessions.read_notes(step.key, invocation_id=holds, kind=HEARD, name=name):
        return holds
    mine = f'"{uuid.uuid4().hex}"'
    written = await world.sessions.note(
        step.key, invocation_id=holds, kind=SENT, name=name, body=mine
    )
    if written == mine:
        failpoint("steer.noted")
        answer = InvocationAnswer(
            message=step.message,
            state_delta=step.state_delta,
            steers=step.invocation_id,
            answer_id=step.invocation_id,
        )
        await world.steer(step.key, active, answer)
    return None


async def heard_by(world: World, step: OpenStep) -> str | None:
    """The invocation that has heard the message of an opening, which may be over; None: nobody."""
    stored = await world.sessions.read_events(step.key)
    found = (item.event for item in stored if item.event.id == step.event_id)
    return next((event.invocation_id for event in found), None)


async def hear(world: World, step: AnswerStep) -> AnswerTaken:
    """Store a message in the active invocation; a repeat finds the first one's event."""
    event = Event(
        id=step.event_id,
        invocation_id=step.invocation_id,
        author="user",
        timestamp=step.timestamp,
        content=step.answer.message,
        actions=EventActions(state_delta=step.answer.state_delta),
    )
    failpoint("steer.before")
    try:
        seq = await world.sessions.commit_event(
            step.key, event, invocation_id=step.invocation_id, epoch=step.epoch
        )
    except EventConflictError:
        return AnswerTaken(refused="The message has started an invocation of its own.")
    failpoint("steer.after")
    await world.sessions.note(
        step.key,
        invocation_id=step.invocation_id,
        kind=HEARD,
        name=step.answer.steers or "",
        body=str(seq),
        replace=True,
    )
    state = (await world.sessions.read_state(step.key))[1] if step.wants_state else None
    return AnswerTaken(epoch=step.epoch, seq=seq, state=state)
