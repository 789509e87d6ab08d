"""`RunConfig` and its parts, at ADK's path."""

from durable_adk.wire.run_config import (
    Budget,
    GetSessionConfig,
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
