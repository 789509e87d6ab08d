"""The interface to long-term memory.

Contract of every implementation, tested by one suite (`tests/unit/memory/test_contract.py`):

* Memories belong to one user of one app; no other user can find them (I18).
* Only text is stored, searched and returned; thoughts are not.
* Every call is idempotent and may be repeated after a lost acknowledgement; a memory is stored
  once.

All calls raise InvalidRequestError for an invalid id, and StoreUnavailableError while the store is
unavailable.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import Field

from durable_adk.events.event import Event
from durable_adk.json_values import JsonModel
from durable_adk.memory.memory_entry import MemoryEntry
from durable_adk.sessions.session import Session

MAX_RESULTS = 10
"""Maximum number of memories returned by a search (MEM-3)."""


class SearchMemoryResponse(JsonModel):
    """The memories found by a search, best match first."""

    memories: list[MemoryEntry] = Field(default_factory=list[MemoryEntry])


class BaseMemoryService(ABC):
    """Stores text from a user's sessions for use in later ones (MEM-1).

    Nothing is added automatically: the application or a callback decides what to store (MEM-4).
    """

    @abstractmethod
    async def add_session_to_memory(self, session: Session) -> None:
        """Store a session's events, replacing the memories stored for it before (MEM-3)."""

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
        """Add events to the existing memories; an event already stored is kept as is (MEM-6).

        Args:
            app_name: Name of the app.
            user_id: Id of the user.
            events: Events to add. Partial events and events without text are skipped.
            session_id: The session that the memories belong to, if any.
            custom_metadata: JSON to store with each memory.

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
        """Add memories that do not come from a session (MEM-6).

        An entry without an id gets one derived from its content, so that the same entry is stored
        once. `custom_metadata` is merged into each entry's metadata; the entry's own keys win.

        Raises:
            StateValueError: The metadata or an entry is not JSON.
        """

    @abstractmethod
    async def delete_memory(
        self, *, app_name: str, user_id: str, memory_id: str | None = None
    ) -> None:
        """Delete the memories with this id, or all of the user's if None; idempotent."""

    @abstractmethod
    async def search_memory(
        self, *, app_name: str, user_id: str, query: str
    ) -> SearchMemoryResponse:
        """Return up to `MAX_RESULTS` memories that share words with the query, best match first.

        The query may be any text and is case-insensitive. A query without words finds nothing.
        """

    async def scrub(self) -> None:  # noqa: B027  # optional
        """Overwrite deleted data if the store can; files retain it until then."""

    async def close(self) -> None:  # noqa: B027  # optional
        """Close connections and files."""
