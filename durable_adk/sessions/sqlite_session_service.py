"""`SqliteSessionService` at ADK's import path."""

from durable_adk.sessions.database_session_service import SqliteSessionService

__all__ = ["SqliteSessionService"]
