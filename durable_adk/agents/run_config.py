"""`RunConfig` and the types of its fields, at ADK's import path."""

from durable_adk.sessions.records import GetSessionConfig
from durable_adk.wire.run_config import (
    Budget,
    Priority,
    RunConfig,
    StreamingMode,
    ToolThreadPoolConfig,
)

__all__ = [
    "Budget",
    "GetSessionConfig",
    "Priority",
    "RunConfig",
    "StreamingMode",
    "ToolThreadPoolConfig",
]
