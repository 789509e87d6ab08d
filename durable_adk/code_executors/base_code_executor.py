"""The interface of code executors."""

from abc import abstractmethod
from collections.abc import Awaitable
from typing import Annotated, TypeAlias

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from durable_adk.code_executors.code_execution_utils import CodeExecutionInput, CodeExecutionResult
from durable_adk.context.activity import CallbackContext
from durable_adk.errors import AgentDefinitionError
from durable_adk.settings import FiniteSeconds

LONGEST = 300.0
"""Default time limit in seconds, for executors that require one."""
START_UP = 30.0
"""Seconds that an execution may take in addition to the code; executors may override it."""


class BaseCodeExecutor(BaseModel):
    """Runs the code blocks of an agent's model (FLW-90)."""

    model_config = ConfigDict(arbitrary_types_allowed=True)

    optimize_data_file: bool = False
    """Pass data files of user messages (CSV) to the code, and only their names to the model."""
    stateful: bool = False
    """Whether variables persist between executions of a `CodeExecutionInput.execution_id`."""
    error_retry_attempts: int = Field(default=2, ge=0)
    """Consecutive failures within an invocation after which no more code is run."""
    code_block_delimiters: list[tuple[str, str]] = [
        ("```tool_code\n", "\n```"),
        ("```python\n", "\n```"),
    ]
    """Delimiters of code in the model's text; the first pair also encloses code in prompts."""
    execution_result_delimiters: tuple[str, str] = ("```tool_output\n", "\n```")
    """Delimiters of earlier results in prompts."""
    timeout_seconds: FiniteSeconds | None = Field(default=None, gt=0)
    """Time limit of one execution in seconds; None for the executor's default."""

    @property
    def attempt_timeout(self) -> float | None:
        """Timeout of one attempt in seconds, including startup; None for the tools' timeout."""
        return None if self.timeout_seconds is None else self.timeout_seconds + START_UP

    @abstractmethod
    def execute_code(
        self, invocation_context: CallbackContext, code_execution_input: CodeExecutionInput
    ) -> CodeExecutionResult | Awaitable[CodeExecutionResult]:
        """Run code; may be sync or async.

        Called in an activity, at least once: if the worker dies before the result is stored, the
        same code is run again with the same `execution_id`.

        Args:
            invocation_context: The step's context, under ADK's name. Its state is writable;
                changes are stored together with the result.
            code_execution_input: The code and its files.

        Raises:
            CodeExecutorError: The code could not be run at all. This fails the run, as does any
                other exception.
        """
        ...


def _refuse_state(value: bool) -> bool:
    if value:
        raise AgentDefinitionError("This executor cannot be stateful: nothing of a run lives on.")
    return value


Stateless: TypeAlias = Annotated[
    bool, Field(frozen=True, exclude=True), AfterValidator(_refuse_state)
]
"""Type of the `stateful` field of executors that keep no state between executions."""
