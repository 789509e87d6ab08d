"""The part of the port to the session store that knows who waits for a session."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

from durable_adk.events.event import Event
from durable_adk.sessions.records import InvocationRecord, Place, Status, Ticket
from durable_adk.sessions.session import SessionKey


class SessionQueue(ABC):
    """The tickets that `open_invocation`, `resume_invocation` and `close_paused` take."""

    @abstractmethod
    async def check_turn(
        self,
        key: SessionKey,
        *,
        invocation_id: str,
        holder: str,
        place: Place | None = None,
        resumes: bool = False,
    ) -> None:
        """Look whether it is worth trying again; a few small reads, however many wait.

        Nothing is raised for who has no ticket, or one that has to be renewed or moved.

        Args:
            key: The session.
            invocation_id: Whose ticket it is.
            holder: As it was given for the ticket.
            place: As for `open_invocation`.
            resumes: Whether only the lease is waited for, and no ticket.

        Raises:
            SessionBusyError: The turn of its ticket has not come.
        """

    @abstractmethod
    async def close_paused(
        self,
        key: SessionKey,
        *,
        invocation_id: str,
        epoch: int,
        status: Status,
        revision: int | None = None,
        error: dict[str, Any] | None = None,
        seals: Sequence[Event] = (),
    ) -> InvocationRecord:
        """End a paused invocation at once, whoever holds the lease.

        Its seals are stored when nobody does, without interleaving with others' events: while the
        session is busy a ticket before all others keeps them from opening, and the call is to be
        repeated. The ticket does not expire: without the holder, who opens next has to repeat it.
        How it has ended stands from the first call on. The last one takes an epoch of its own; a
        repeat after that changes nothing.

        Raises:
            SessionBusyError: It has ended, and its seals are still to be stored.
            LeaseLostError: It is not paused at this epoch, or the session was deleted.
            StaleSessionError: The log does not end at `revision`, which the seals were made for.
        """

    @abstractmethod
    async def waiting(self, key: SessionKey, *, limit: int | None = None) -> list[Ticket]:
        """Who waits for the session, in the order of their turns; expired tickets excluded.

        Those who are gone are among them until somebody who comes after them looks.
        """

    @abstractmethod
    async def leave_queue(self, key: SessionKey, *, invocation_id: str, holder: str) -> None:
        """Drop the ticket that the holder has for the invocation; nothing happens without one.

        For who does not want to wait any more, or in the place of a holder that is gone.
        """
