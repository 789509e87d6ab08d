"""Code executors run the code that a model writes; agents have none by default."""

from durable_adk.code_executors.base_code_executor import BaseCodeExecutor
from durable_adk.code_executors.built_in_code_executor import BuiltInCodeExecutor
from durable_adk.code_executors.code_limits import CodeLimits
from durable_adk.code_executors.container_code_executor import ContainerCodeExecutor
from durable_adk.code_executors.subprocess_code_executor import SubprocessCodeExecutor
from durable_adk.code_executors.unsafe_local_code_executor import UnsafeLocalCodeExecutor
from durable_adk.errors import CodeExecutorError

__all__ = [
    "BaseCodeExecutor",
    "BuiltInCodeExecutor",
    "CodeExecutorError",
    "CodeLimits",
    "ContainerCodeExecutor",
    "SubprocessCodeExecutor",
    "UnsafeLocalCodeExecutor",
]
