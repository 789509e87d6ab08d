"""ADK's name for the code executor that uses a separate process on the same machine."""

from pydantic import Field

from durable_adk.code_executors.subprocess_code_executor import SubprocessCodeExecutor
from durable_adk.settings import FiniteSeconds


class UnsafeLocalCodeExecutor(SubprocessCodeExecutor):
    """A `SubprocessCodeExecutor` whose name states what `allow_unsafe` confirms."""

    allow_unsafe: bool = Field(default=True, exclude=True)
    timeout_seconds: FiniteSeconds | None = Field(default=300, gt=0)
    """Time limit in seconds; None means 300."""
