"""What the memory services of this package share."""

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import sha256
from typing import Any, NamedTuple

from google.genai import types

from durable_adk.events.event import Event
from durable_adk.json_values import canonical, check_id, check_json
from durable_adk.memory._words import query_words
from durable_adk.memory.base_memory_service import BaseMemoryService, SearchMemoryResponse
from durable_adk.memory.memory_entry import MemoryEntry
from durable_adk.sessions.session import Session

NO_SESSION = ""
"""Session id for memories that come from no session; no real session has this id."""


class Owner(NamedTuple):
    """The user that memories belong to."""

    app_name: str
    user_id: str


@dataclass(frozen=True, kw_only=True)
class Memory:
    """A memory entry as stored: with an id, and reduced to text."""

    session_id: str
    entry_id: str
    entry: MemoryEntry


class StoredMemoryService(BaseMemoryService):
    """Validates input and converts it to memories, which a subclass stores and finds."""

    @abstractmethod
    async def _add(self, owner: Owner, memories: list[Memory], *, replace: str | None) -> None:
        """Delete the memories of session `replace`, then store those whose id is new to it."""

    @abstractmethod
    async def _remove(self, owner: Owner, entry_id: str | None) -> None:
        """Remove the memories with this id, or all if it is None."""

    @abstractmethod
    async def _search(self, owner: Owner, words: list[str]) -> list[MemoryEntry]:
        """Return copies of `MAX_RESULTS` memories that contain any of the words, the best first."""

    async def add_session_to_memory(self, session: Session) -> None:
        """See the base class."""
        session_id = check_id(session.id, "session.id")
        memories = _of_events(session.events, session_id, {})
        owner = _owner(session.app_name, session.user_id)
        await self._add(owner, memories, replace=session_id)

    async def add_events_to_memory(
        self,
        *,
        app_name: str,
        user_id: str,
        events: Sequence[Event],
        session_id: str | None = None,
        custom_metadata: Mapping[str, Any] | None = None,
    ) -> None:
        """See the base class."""
        session = NO_SESSION if session_id is None else check_id(session_id, "session_id")
        memories = _of_events(events, session, _metadata(custom_metadata))
        await self._add(_owner(app_name, user_id), memories, replace=None)

    async def add_memory(
        self,
        *,
        app_name: str,
        user_id: str,
        memories: Sequence[MemoryEntry],
        custom_metadata: Mapping[str, Any] | None = None,
    ) -> None:
        """See the base class."""
        shared = _metadata(custom_metadata)
        entries = [
            entry.model_copy(update={"custom_metadata": {**shared, **entry.custom_metadata}})
            for entry in memories
        ]
        await self._add(_owner(app_name, user_id), _of(entries, NO_SESSION), replace=None)

    async def delete_memory(
        self, *, app_name: str, user_id: str, memory_id: str | None = None
    ) -> None:
        """See the base class."""
        check_json(memory_id, "memory_id")
        await self._remove(_owner(app_name, user_id), memory_id)

    async def search_memory(
        self, *, app_name: str, user_id: str, query: str
    ) -> SearchMemoryResponse:
        """See the base class."""
        owner, words = _owner(app_name, user_id), query_words(query)
        found = await self._search(owner, words) if words else []
        return SearchMemoryResponse(memories=found)


def _owner(app_name: str, user_id: str) -> Owner:
    return Owner(check_id(app_name, "app_name"), check_id(user_id, "user_id"))


def _metadata(custom_metadata: Mapping[str, Any] | None) -> dict[str, Any]:
    metadata = dict(custom_metadata or {})
    check_json(metadata, "custom_metadata")
    return metadata


def _of_events(
    events: Sequence[Event], session_id: str, custom_metadata: dict[str, Any]
) -> list[Memory]:
    entries = [
        MemoryEntry(
            content=event.content,
            id=event.id or None,
            author=event.author or None,
            timestamp=datetime.fromtimestamp(event.timestamp, UTC).isoformat(),
            custom_metadata=custom_metadata,
        )
        for event in events
        if event.content and not event.partial
    ]
    return _of(entries, session_id)


def _of(entries: Sequence[MemoryEntry], session_id: str) -> list[Memory]:
    """Keep entries with text, reduced to it: files and calls are useless in a later prompt."""
    bare = [
        entry.model_copy(update={"content": _spoken(entry.content)})
        for entry in entries
        if entry.text
    ]
    return [_memory(entry, session_id) for entry in bare]


def _spoken(content: types.Content) -> types.Content:
    spoken = [part.text for part in content.parts or [] if part.text and not part.thought]
    return types.Content(role=content.role, parts=[types.Part(text=text) for text in spoken])


def _memory(entry: MemoryEntry, session_id: str) -> Memory:
    dumped = entry.model_dump(exclude_none=True)
    check_json(dumped, "the memory")
    # The id is derived from the entry, so that adding it again after a crash is idempotent.
    entry_id = entry.id or sha256(canonical(dumped).encode()).hexdigest()[:32]
    return Memory(
        session_id=session_id,
        entry_id=entry_id,
        entry=MemoryEntry.model_validate({**dumped, "id": entry_id}),
    )
