"""The port to long-term memory.

Contract of every implementation, tested by one suite (`tests/unit/memory/test_contract.py`):

* Memories belong to an app's user; nobody else finds them (I18).
* Only text is remembered, and no thoughts: they are what is searched, and what comes back.
* Every call may be repeated after a lost acknowledgement; a memory is stored once.

All calls raise InvalidRequestError for an id that cannot serve, and StoreUnavailableError while the
store does not answer.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import Field

from durable_adk.events.event import Event
from durable_adk.json_model import JsonModel
from durable_adk.memory.memory_entry import MemoryEntry
from durable_adk.sessions.session import Session

MAX_RESULTS = 10
"""Memories one search finds at most (semantics MEM-3)."""


class SearchMemoryResponse(JsonModel):
    """What a search has found, the best first."""

    memories: list[MemoryEntry] = Field(default_factory=list[MemoryEntry])


class BaseMemoryService(ABC):
    """Remembers what users said across sessions (semantics MEM-1).

    Nothing is added by itself: the application, or a callback, says what to remember (MEM-4).
    """

    @abstractmethod
    async def add_session_to_memory(self, session: Session) -> None:
        """Remember a session's events, in place of what was remembered of it before (MEM-3)."""

    @abstractmethod
    async def add_events_to_memory(
        self,
        *,
        app_name: str,
        user_id: str,
        events: Sequence[Event],
        session_id: str | None = None,
        custom_metadata: Mapping[str, Any] | None = None,
    ) -> None:
        """Remember some events beside what is there; one that is there already stays (MEM-6).

        Args:
            app_name: Name of the app.
            user_id: Id of the user.
            events: Those without text are passed over, partial ones as well.
            session_id: The session they are counted to; None for none.
            custom_metadata: JSON to keep with each of them.

        Raises:
            StateValueError: `custom_metadata` is not JSON.
        """

    @abstractmethod
    async def add_memory(
        self,
        *,
        app_name: str,
        user_id: str,
        memories: Sequence[MemoryEntry],
        custom_metadata: Mapping[str, Any] | None = None,
    ) -> None:
        """Remember what is given, not from any session (MEM-6).

        An entry without id gets one made of what it says, so the same entry is stored once.
        `custom_metadata` is kept with each of them; an entry's own wins.

        Raises:
            StateValueError: The metadata, or an entry, is not JSON.
        """

    @abstractmethod
    async def delete_memory(
        self, *, app_name: str, user_id: str, memory_id: str | None = None
    ) -> None:
        """Forget the memories of this id, or with None all of the user's; none is no error."""

    @abstractmethod
    async def search_memory(
        self, *, app_name: str, user_id: str, query: str
    ) -> SearchMemoryResponse:
        """The memories that share words with the query, at most `MAX_RESULTS`, the best first.

        Any text is a query; case does not count. No words find nothing.
        """

    async def scrub(self) -> None:  # noqa: B027  # optional
        """Overwrite what was deleted, as far as the store can: files keep it until then."""

    async def close(self) -> None:  # noqa: B027  # optional
        """Let go of connections and files."""
