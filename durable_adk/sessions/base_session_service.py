"""ADK's path and name of the session service, whose one implementation is `SessionLog`."""

from durable_adk.sessions.records import GetSessionConfig, ListSessionsResponse
from durable_adk.sessions.session_log import SessionLog as BaseSessionService

__all__ = ["BaseSessionService", "GetSessionConfig", "ListSessionsResponse"]
