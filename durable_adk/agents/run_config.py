"""`RunConfig`, and what belongs to it, at the path ADK gives them."""

from durable_adk.wire.run_config import (
    GetSessionConfig,
    RunConfig,
    StreamingMode,
    ToolThreadPoolConfig,
)

__all__ = ["GetSessionConfig", "RunConfig", "StreamingMode", "ToolThreadPoolConfig"]
