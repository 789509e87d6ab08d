"""Adapters of this package's stores for google-adk's `Runner`, ``adk web`` and other programs.

Durable runs see the data that these programs write, and vice versa. They must not run in the same
session at the same time: the later writer gets a StaleSessionError.
"""

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from google.adk.artifacts.base_artifact_service import ensure_part
from google.adk.errors._stale_session_error import StaleSessionError as AdkStaleSessionError
from google.adk.errors.already_exists_error import AlreadyExistsError as AdkAlreadyExistsError
from google.adk.errors.session_not_found_error import (
    SessionNotFoundError as AdkSessionNotFoundError,
)
from google.adk.events.event import Event as AdkEvent
from google.adk.memory.base_memory_service import (
    BaseMemoryService as AdkBaseMemoryService,
    SearchMemoryResponse as AdkSearchMemoryResponse,
)
from google.adk.memory.memory_entry import MemoryEntry as AdkMemoryEntry
from google.adk.sessions.base_session_service import (
    BaseSessionService as AdkBaseSessionService,
    GetSessionConfig as AdkGetSessionConfig,
    ListSessionsResponse as AdkListSessionsResponse,
)
from google.adk.sessions.session import Session as AdkSession
from google.genai import types
from pydantic import BaseModel, PrivateAttr
from pydantic_core import to_jsonable_python

from durable_adk.artifacts.base_artifact_service import BaseArtifactService
from durable_adk.artifacts.location import artifacts_at
from durable_adk.errors import AlreadyExistsError, SessionNotFoundError, StaleSessionError
from durable_adk.events.event import Event
from durable_adk.interop.services import AdkArtifacts
from durable_adk.memory.base_memory_service import BaseMemoryService
from durable_adk.memory.memory_entry import MemoryEntry
from durable_adk.memory.postgres_memory_service import PostgresMemoryService
from durable_adk.memory.sqlite_memory_service import SqliteMemoryService
from durable_adk.sessions.database_session_service import DatabaseSessionService
from durable_adk.sessions.log.copies import CopiedEvent
from durable_adk.sessions.records import GetSessionConfig
from durable_adk.sessions.session import Session, SessionKey
from durable_adk.sessions.session_log import SessionLog
from durable_adk.sessions.state import USER_PREFIX
from durable_adk.sql.database_url import file_of, parse

M = TypeVar("M", Session, Event, MemoryEntry)

_ERRORS: list[tuple[type[Exception], type[Exception]]] = [
    (AlreadyExistsError, AdkAlreadyExistsError),
    (SessionNotFoundError, AdkSessionNotFoundError),
    (StaleSessionError, AdkStaleSessionError),
]


@contextmanager
def _adks_errors() -> Generator[None]:
    """Convert this package's errors to google-adk's errors of the same name."""
    try:
        yield
    except tuple(ours for ours, _ in _ERRORS) as error:
        theirs = next(theirs for ours, theirs in _ERRORS if isinstance(error, ours))
        raise theirs(str(error)) from error


class DurableSession(AdkSession):
    """A session of google-adk's class that records its number of stored events."""

    _revision: int = PrivateAttr(default=0)

    @classmethod
    def of(cls, session: Session, events: Sequence[CopiedEvent] = ()) -> "DurableSession":
        """Convert a session and its events."""
        made = cls(
            id=session.id,
            app_name=session.app_name,
            user_id=session.user_id,
            state=session.state,
            events=[AdkEvent.model_validate(one.as_adk()) for one in events],
            last_update_time=session.last_update_time,
        )
        made._revision = session.revision
        return made

    @property
    def revision(self) -> int:
        """The number of stored events at the last read or write."""
        return self._revision

    def stored(self, revision: int) -> None:
        """Set the revision after a write."""
        self._revision = revision


class DurableSessionService(AdkBaseSessionService):
    """google-adk's session service on top of this package's session store.

    Args:
        store: Its URL, such as ``sqlite:///sessions.db``, or the store itself. `close` closes only
            a store that was created from a URL.
    """

    def __init__(self, store: SessionLog | str) -> None:
        self._is_mine = isinstance(store, str)
        self._store = DatabaseSessionService(store) if isinstance(store, str) else store

    async def create_session(
        self,
        *,
        app_name: str,
        user_id: str,
        state: dict[str, Any] | None = None,
        session_id: str | None = None,
    ) -> AdkSession:
        with _adks_errors():
            made = await self._store.create_session(
                app_name=app_name,
                user_id=user_id,
                state=to_jsonable_python(state or {}),
                session_id=session_id,
            )
        return DurableSession.of(made)

    async def get_session(
        self,
        *,
        app_name: str,
        user_id: str,
        session_id: str,
        config: AdkGetSessionConfig | None = None,
    ) -> AdkSession | None:
        key = SessionKey(app_name, user_id, session_id)
        wanted = GetSessionConfig(**(config.model_dump() if config else {}))
        found = await self._store.read_conversation(key, wanted)
        return found and DurableSession.of(*found)

    async def list_sessions(
        self, *, app_name: str, user_id: str | None = None
    ) -> AdkListSessionsResponse:
        listed = await self._store.list_sessions(app_name=app_name, user_id=user_id)
        return AdkListSessionsResponse(sessions=[DurableSession.of(one) for one in listed.sessions])

    async def delete_session(self, *, app_name: str, user_id: str, session_id: str) -> None:
        await self._store.delete_session(app_name=app_name, user_id=user_id, session_id=session_id)

    async def get_user_state(self, *, app_name: str, user_id: str) -> dict[str, Any]:
        return await self._store.get_user_state(app_name=app_name, user_id=user_id)

    async def append_event(self, session: AdkSession, event: AdkEvent) -> AdkEvent:
        if event.partial:
            return event
        self._apply_temp_state(session, event)
        event = self._trim_temp_delta_state(event)
        key = SessionKey(session.app_name, session.user_id, session.id)
        item = CopiedEvent.read(event.model_dump(mode="json", exclude_none=True))
        with _adks_errors():
            revision = await self._revision(key, session)
            stored = await self._store.append_copied(key, item, revision=revision)
        if stored.events <= revision:
            return event  # a repeat: the session already has the event
        if isinstance(session, DurableSession):
            session.stored(stored.events)
        session.last_update_time = stored.update_time
        return self._commit_event_to_session(session, event)

    async def close(self) -> None:
        """Close connections and files."""
        if self._is_mine:
            await self._store.close()

    async def _revision(self, key: SessionKey, session: AdkSession) -> int:
        """Return the number of stored events that a session object reflects.

        A session object that was not read here must end with the last stored event.
        """
        if isinstance(session, DurableSession):
            return session.revision
        found = await self._store.read_conversation(key, GetSessionConfig(num_recent_events=1))
        if found is None:
            raise SessionNotFoundError(f"The session {key.session_id!r} is missing.")
        stored, last = found
        if [one.event.id for one in last] != [one.id for one in session.events[-1:]]:
            raise StaleSessionError("The session has other events in storage; read it again.")
        return stored.revision


class DurableArtifactService(AdkArtifacts):
    """google-adk's artifact service on top of this package's.

    Args:
        store: The workers' folder, the URI of their object store, or their service.
    """

    def __init__(self, store: BaseArtifactService | Path | str) -> None:
        super().__init__(artifacts_at(store) if isinstance(store, (str, Path)) else store)

    async def save_artifact(
        self,
        *,
        app_name: str,
        user_id: str,
        filename: str,
        artifact: types.Part | dict[str, Any],
        session_id: str | None = None,
        custom_metadata: dict[str, Any] | None = None,
    ) -> int:
        return await self._service.save_artifact(
            app_name=app_name,
            user_id=user_id,
            session_id=session_id,
            filename=_scoped(filename, session_id),
            artifact=ensure_part(artifact),
            custom_metadata=custom_metadata,
        )

    def _named(self, filename: str, owner: dict[str, Any]) -> dict[str, Any]:
        """Return owner and name; google-adk's artifacts without a session belong to the user."""
        return {**owner, "filename": _scoped(filename, owner.get("session_id"))}


class DurableMemoryService(AdkBaseMemoryService):
    """google-adk's memory service on top of this package's.

    Args:
        store: The URL of the database with the memories, or the workers' service. `close` closes
            only a service that was created from a URL.
    """

    def __init__(self, store: BaseMemoryService | str) -> None:
        self._is_mine = isinstance(store, str)
        self._store = _memory_at(store) if isinstance(store, str) else store

    async def add_session_to_memory(self, session: AdkSession) -> None:
        await self._store.add_session_to_memory(_read(Session, session))

    async def add_events_to_memory(
        self, *, events: Any, custom_metadata: Any = None, **owner: Any
    ) -> None:
        ours = [_read(Event, event) for event in events]
        await self._store.add_events_to_memory(
            **owner, events=ours, custom_metadata=custom_metadata
        )

    async def add_memory(self, *, memories: Any, custom_metadata: Any = None, **owner: Any) -> None:
        entries = [_read(MemoryEntry, entry) for entry in memories]
        await self._store.add_memory(**owner, memories=entries, custom_metadata=custom_metadata)

    async def delete_memory(
        self, *, app_name: str, user_id: str, memory_id: str | None = None
    ) -> None:
        await self._store.delete_memory(app_name=app_name, user_id=user_id, memory_id=memory_id)

    async def search_memory(
        self, *, app_name: str, user_id: str, query: str
    ) -> AdkSearchMemoryResponse:
        found = await self._store.search_memory(app_name=app_name, user_id=user_id, query=query)
        memories = [AdkMemoryEntry.model_validate(entry.model_dump()) for entry in found.memories]
        return AdkSearchMemoryResponse(memories=memories)

    async def close(self) -> None:
        """Close connections and files."""
        if self._is_mine:
            await self._store.close()


def _read(kind: type[M], value: BaseModel) -> M:
    return kind.from_json(value.model_dump_json(exclude_none=True))


def _scoped(filename: str, session_id: str | None) -> str:
    is_users = session_id is None and not filename.startswith(USER_PREFIX)
    return USER_PREFIX + filename if is_users else filename


def _memory_at(url: str) -> BaseMemoryService:
    file = file_of(parse(url))
    return PostgresMemoryService(url) if file is None else SqliteMemoryService(file)
