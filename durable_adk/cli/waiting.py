"""The calls that wait for an answer, as the session store knows them.

Nobody's code is imported for it and no Temporal is asked: the history says what waits.
"""

from collections.abc import AsyncGenerator, Iterable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from durable_adk.client.pending import pending_calls_of
from durable_adk.conversation.pending_calls import PendingCall
from durable_adk.errors import InvalidRequestError
from durable_adk.sessions.base_session_service import (
    BaseSessionService,
    InvocationRecord,
    Status,
)
from durable_adk.sessions.reading import all_invocations
from durable_adk.sessions.session import SessionKey

SHORTEST = 12
"""Characters of an id that are shown at least, to be typed in its place."""

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class Where:
    """Which sessions are looked through; None: all."""

    app: str | None = None
    user: str | None = None
    session: str | None = None


@dataclass(frozen=True, kw_only=True)
class Waiting:
    """A call that waits, and whose session it is in."""

    key: SessionKey
    record: InvocationRecord
    call: PendingCall


async def app_names(sessions: BaseSessionService) -> list[str]:
    """The apps that have sessions."""
    return await sessions.list_apps()


async def invocations(
    sessions: BaseSessionService, where: Where, *, status: Status | None = None
) -> AsyncGenerator[tuple[SessionKey, InvocationRecord]]:
    """The invocations of some sessions, all of them, however many there are."""
    for name in [where.app] if where.app else await app_names(sessions):
        found = all_invocations(
            sessions,
            app_name=name,
            user_id=where.user,
            session_id=where.session,
            status=status,
        )
        async for one in found:
            yield one


async def find_invocation(
    sessions: BaseSessionService, where: Where, start: str
) -> tuple[SessionKey, InvocationRecord]:
    """The one invocation whose id is `start`, or else begins with it.

    A beginning means one that runs or waits, if there is one.

    Raises:
        InvalidRequestError: There is none, or several.
    """
    going = await _beginning(sessions, where, start, Status.RUNNING)
    going |= await _beginning(sessions, where, start, Status.PAUSED)
    found = going or await _beginning(sessions, where, start, None)
    return pick(((name, key, one) for (key, name), one in found.items()), start, "invocation")


async def _beginning(
    sessions: BaseSessionService, where: Where, start: str, status: Status | None
) -> dict[tuple[SessionKey, str], tuple[SessionKey, InvocationRecord]]:
    """The invocations whose ids begin so; none, if nothing was typed."""
    return {
        (key, record.invocation_id): (key, record)
        async for key, record in invocations(sessions, where, status=status)
        if start and record.invocation_id.startswith(start)
    }


async def find_waiting(sessions: BaseSessionService, where: Where) -> list[Waiting]:
    """All calls that wait, oldest first: of paused invocations, and of those with busy branches."""
    found: dict[SessionKey, dict[str, InvocationRecord]] = {}
    for status in (Status.PAUSED, Status.RUNNING):
        async for key, record in invocations(sessions, where, status=status):
            found.setdefault(key, {})[record.invocation_id] = record
    waiting = [item for key, records in found.items() for item in await _of(sessions, key, records)]
    return sorted(waiting, key=lambda item: item.call.asked_at)


async def waiting_of(
    sessions: BaseSessionService, key: SessionKey, invocation_id: str
) -> list[Waiting]:
    """The calls that an invocation has paused for; [] if it has not paused."""
    record = await sessions.get_invocation(key, invocation_id)
    if record is None or record.status is not Status.PAUSED:
        return []
    return await _of(sessions, key, {invocation_id: record})


async def _of(
    sessions: BaseSessionService, key: SessionKey, records: dict[str, InvocationRecord]
) -> list[Waiting]:
    return [
        Waiting(key=key, record=records[call.invocation_id], call=call)
        for call in await pending_calls_of(sessions, key, records)
    ]


def pick(items: Iterable[tuple[str, SessionKey, T]], start: str, what: str) -> T:
    """The one item whose id is `start`, or else begins with it.

    Args:
        items: Each with its id and session.
        start: What the user typed.
        what: What an item is, for messages.

    Raises:
        InvalidRequestError: There is none, or several.
    """
    known = list(items)
    exact = [item for item in known if item[0] == start]
    hits = exact or [item for item in known if start and item[0].startswith(start)]
    if len(hits) == 1:
        return hits[0][2]
    if not hits:
        raise InvalidRequestError(f"No {what} has an id that begins with {start!r}.")
    if len({name for name, _, _ in hits}) == 1:
        places = ", ".join(f"{key.session_id!r} of user {key.user_id!r}" for _, key, _ in hits)
        raise InvalidRequestError(
            f"{hits[0][0]!r} is the id of a {what} in the sessions {places}; say which one with "
            "--session, --user or --target."
        )
    names = ", ".join(name for name, _, _ in hits)
    raise InvalidRequestError(f"{start!r} begins several ids ({names}); give more of it.")


def short(name: str, names: Sequence[str]) -> str:
    """The beginning of an id that tells it from all others."""
    others = set(names) - {name}
    for length in range(min(SHORTEST, len(name)), len(name)):
        if not any(other.startswith(name[:length]) for other in others):
            return name[:length]
    return name
