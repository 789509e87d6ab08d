"""`DatabaseSessionService` at the path ADK gives it."""

from durable_adk.sessions.sql_session_service import DatabaseSessionService

__all__ = ["DatabaseSessionService"]
