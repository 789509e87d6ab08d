"""Sessions, their state and their storage."""

from durable_adk.errors import StateSchemaError
from durable_adk.sessions.base_session_service import BaseSessionService
from durable_adk.sessions.database_session_service import (
    DatabaseSessionService,
    SqliteSessionService,
)
from durable_adk.sessions.in_memory_session_service import InMemorySessionService
from durable_adk.sessions.records import (
    GetSessionConfig,
    InvocationRecord,
    ListSessionsResponse,
    Note,
    QueuePosition,
    Status,
    StoredEvent,
    Ticket,
)
from durable_adk.sessions.session import Session, SessionKey
from durable_adk.sessions.session_log import SessionLog
from durable_adk.sessions.state import State

__all__ = [
    "BaseSessionService",
    "DatabaseSessionService",
    "GetSessionConfig",
    "InMemorySessionService",
    "InvocationRecord",
    "ListSessionsResponse",
    "Note",
    "QueuePosition",
    "Session",
    "SessionKey",
    "SessionLog",
    "SqliteSessionService",
    "State",
    "StateSchemaError",
    "Status",
    "StoredEvent",
    "Ticket",
]
