"""The part of the port to the session store that keeps an invocation's notes."""

from abc import ABC, abstractmethod

from durable_adk.sessions.records import Note, StoredEvent
from durable_adk.sessions.session import SessionKey


class Notebook(ABC):
    """What invocations write down for themselves: no part of the conversation."""

    @abstractmethod
    async def note(
        self,
        key: SessionKey,
        *,
        invocation_id: str,
        kind: str,
        name: str,
        body: str,
        replace: bool = False,
    ) -> str:
        """Write something down for the invocation; returns what is written there now.

        The first body of a name stays, so a repeat after a lost acknowledgement, and an attempt
        that follows another, finds what was written first. No lease is looked at: a note is no part
        of the conversation, and nobody but its own invocation reads it. A closed invocation, whose
        notes are gone, gets back what it passes, and only `records.ATTEMPT` notes are still kept.

        Args:
            key: The session.
            invocation_id: The invocation, which has been opened.
            kind: Which of its notes; what each kind means is the writer's affair.
            name: Which note of the kind.
            body: JSON text, of several MB if need be.
            replace: Let the last body stay and not the first.

        Raises:
            InvocationNotFoundError: The session or the invocation is missing.
            StateValueError: The name or the body holds characters that cannot be stored.
        """

    @abstractmethod
    async def read_notes(
        self,
        key: SessionKey,
        *,
        invocation_id: str,
        kind: str,
        name: str | None = None,
        after: str | None = None,
        limit: int | None = None,
    ) -> list[Note]:
        """An invocation's notes of a kind, ordered by name, code point by code point.

        Args:
            key: The session; [] if it is missing.
            invocation_id: The invocation; [] if it is missing.
            kind: Which of its notes.
            name: Only this one, whatever `after` and `limit` are.
            after: Only those whose names come after this one.
            limit: At most so many.
        """

    @abstractmethod
    async def reserve_event(
        self, key: SessionKey, event_id: str, *, invocation_id: str, epoch: int, revision: int
    ) -> StoredEvent | None:
        """Let nobody but the loop commit an event from now on, unless it is stored.

        For a step that leaves its event to the loop although an earlier attempt of it may be alive:
        a commit `by_step` comes before this or never. It is so until the lease is given back; where
        the invocation does not hold it at `epoch`, nothing is reserved and nobody can commit. A
        repeat changes nothing.

        Returns:
            The event, if it is stored, and then nothing is reserved.

        Raises:
            SessionRegressedError: The session has fewer than `revision` events.
        """
