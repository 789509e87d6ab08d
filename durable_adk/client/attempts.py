"""What the attempts of an invocation's model calls have cost that gave no answer."""

from durable_adk.models.model_attempt import ModelAttempt
from durable_adk.sessions.base_session_service import BaseSessionService
from durable_adk.sessions.records import ATTEMPT
from durable_adk.sessions.session import SessionKey


async def read_attempts(
    sessions: BaseSessionService, key: SessionKey, invocation_id: str
) -> list[ModelAttempt]:
    """The attempts in vain: failed, cancelled or lost; in the order of the answers they were for.

    They stay when the invocation has ended. Those that did answer are not here: their tokens are
    on their events, as `Event.usage_metadata`.
    """
    notes = await sessions.read_notes(key, invocation_id=invocation_id, kind=ATTEMPT)
    found = [ModelAttempt.model_validate_json(note.body, extra="ignore") for note in notes]
    return sorted(found, key=_place)


def _place(attempt: ModelAttempt) -> tuple[list[tuple[int, str]], int]:
    """Event ids by their numbers: ``e.10`` comes after ``e.9``."""
    parts = attempt.event_id.split(".")
    return [(int(part), "") if part.isdigit() else (0, part) for part in parts], attempt.attempt
