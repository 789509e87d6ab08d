"""The session service at ADK's path and name; its only implementation is `SessionLog`."""

from durable_adk.sessions.records import GetSessionConfig, ListSessionsResponse
from durable_adk.sessions.session_log import SessionLog as BaseSessionService

__all__ = ["BaseSessionService", "GetSessionConfig", "ListSessionsResponse"]
