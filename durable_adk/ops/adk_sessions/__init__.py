"""Copies sessions between google-adk's databases and this package's, without google-adk."""

from durable_adk.ops.adk_sessions.copies import CopyReport, OpenRequest, Problem, copy_sessions
from durable_adk.ops.adk_sessions.database import open_database
from durable_adk.ops.adk_sessions.stored_sessions import StoredSessions

__all__ = [
    "CopyReport",
    "OpenRequest",
    "Problem",
    "StoredSessions",
    "copy_sessions",
    "open_database",
]
