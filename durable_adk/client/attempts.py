"""Model calls without a response, and the tokens they used."""

from durable_adk.models.model_attempt import ModelAttempt
from durable_adk.sessions.records import ATTEMPT
from durable_adk.sessions.session import SessionKey
from durable_adk.sessions.session_log import SessionLog


async def read_attempts(
    sessions: SessionLog, key: SessionKey, invocation_id: str
) -> list[ModelAttempt]:
    """The model calls of an invocation that failed, were cancelled or were lost, in order.

    The records outlive the invocation. Successful calls have none: their tokens are on their
    events, as `Event.usage_metadata`.
    """
    notes = await sessions.read_notes(key, invocation_id=invocation_id, kind=ATTEMPT)
    found = [ModelAttempt.model_validate_json(note.body, extra="ignore") for note in notes]
    return sorted(found, key=_order)


def _order(attempt: ModelAttempt) -> tuple[list[tuple[int, str]], int]:
    """Order event ids by their numbers: ``e.10`` comes after ``e.9``."""
    parts = attempt.event_id.split(".")
    return [(int(part), "") if part.isdigit() else (0, part) for part in parts], attempt.attempt
