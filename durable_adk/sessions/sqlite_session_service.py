"""`SqliteSessionService` at the path ADK gives it."""

from durable_adk.sessions.sql_session_service import SqliteSessionService

__all__ = ["SqliteSessionService"]
