"""The tables of google-adk's `DatabaseSessionService`, in their current version (schema 1)."""

import json
from typing import Any

from sqlalchemy import (
    Column,
    DateTime,
    Dialect,
    ForeignKeyConstraint,
    Index,
    MetaData,
    String,
    Table,
    Text,
    TypeDecorator,
)
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.types import TypeEngine

METADATA = MetaData()
VERSION_KEY = "schema_version"
VERSION = "1"


class _Json(TypeDecorator[Any]):
    """JSON in google-adk's column types: JSONB in PostgreSQL, text elsewhere."""

    impl = Text
    cache_ok = True

    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[Any]:
        kind = JSONB() if dialect.name == "postgresql" else Text()
        return dialect.type_descriptor(kind)

    def process_bind_param(self, value: Any, dialect: Dialect) -> Any:
        return value if dialect.name == "postgresql" or value is None else json.dumps(value)

    def process_result_value(self, value: Any, dialect: Dialect) -> Any:
        return value if dialect.name == "postgresql" or value is None else json.loads(value)


def _key(*names: str) -> list[Column[str]]:
    return [Column(name, String(128), primary_key=True) for name in names]


VERSIONS = Table(
    "adk_internal_metadata",
    METADATA,
    Column("key", String(128), primary_key=True),
    Column("value", String(256), nullable=False),
)
"""The version of the tables, at `VERSION_KEY`."""

SESSIONS = Table(
    "sessions",
    METADATA,
    *_key("app_name", "user_id", "id"),
    Column("state", _Json, nullable=False),
    Column("create_time", DateTime, nullable=False),
    Column("update_time", DateTime, nullable=False),
)

EVENTS = Table(
    "events",
    METADATA,
    *_key("id", "app_name", "user_id", "session_id"),
    Column("invocation_id", String(256), nullable=False),
    Column("timestamp", DateTime, nullable=False),
    Column("event_data", _Json),
    ForeignKeyConstraint(
        ["app_name", "user_id", "session_id"],
        ["sessions.app_name", "sessions.user_id", "sessions.id"],
        ondelete="CASCADE",
    ),
)
Index(
    "idx_events_app_user_session_ts_id",
    *(EVENTS.c.app_name, EVENTS.c.user_id, EVENTS.c.session_id),
    *(EVENTS.c.timestamp.desc(), EVENTS.c.id.desc()),
)

APP_STATES = Table(
    "app_states",
    METADATA,
    *_key("app_name"),
    Column("state", _Json, nullable=False),
    Column("update_time", DateTime, nullable=False),
)

USER_STATES = Table(
    "user_states",
    METADATA,
    *_key("app_name", "user_id"),
    Column("state", _Json, nullable=False),
    Column("update_time", DateTime, nullable=False),
)
