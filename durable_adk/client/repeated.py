"""An answer that is sent again, because its sender does not know whether the first one arrived."""

import hashlib
import uuid

from durable_adk.conversation.answers import (
    answer_message,
    answered_call_ids,
    answered_invocation_ids,
    check_answers,
)
from durable_adk.errors import InvalidRequestError
from durable_adk.json_values import canonical
from durable_adk.sessions.base_session_service import BaseSessionService, StoredEvent
from durable_adk.sessions.reading import read_from_calls
from durable_adk.sessions.session import SessionKey
from durable_adk.sessions.state import without_temp
from durable_adk.wire.messages import InvocationRequest, answer_event, user_content


def answer_id_of(request: InvocationRequest) -> str:
    """The name of an answer: the same for each time that a request with an id is sent."""
    if not request.invocation_id:
        return uuid.uuid4().hex
    calls = answered_call_ids(user_content(request.message)) if request.message else []
    return hashlib.sha256(canonical([request.invocation_id, *calls]).encode()).hexdigest()[:32]


async def sent_before(
    sessions: BaseSessionService, key: SessionKey, request: InvocationRequest, answer_id: str
) -> StoredEvent | None:
    """The event as which the same answer is stored already.

    Raises:
        InvalidRequestError: Another one was sent under this id.
    """
    message = user_content(request.message)
    stored = await read_from_calls(sessions, key, answered_call_ids(message))
    events = [item.event for item in stored]
    names = {answer_event(name, answer_id) for name in answered_invocation_ids(events, message)}
    place = next((i for i, event in enumerate(events) if event.id in names), None)
    if place is None:
        return None
    # As it was checked then, when its calls waited.
    same = answer_message(check_answers(events[:place], message)) == events[place].content
    if not same or without_temp(request.state_delta) != events[place].actions.state_delta:
        raise InvalidRequestError(
            f"invocation_id {request.invocation_id!r} was sent with another answer to the same "
            "calls; that one counts."
        )
    return stored[place]
