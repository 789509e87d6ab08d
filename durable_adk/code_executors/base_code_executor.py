"""The port to a code executor."""

from abc import abstractmethod
from collections.abc import Awaitable
from typing import Annotated, TypeAlias

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from durable_adk.code_executors.code_execution_utils import CodeExecutionInput, CodeExecutionResult
from durable_adk.context.activity import CallbackContext
from durable_adk.errors import AgentDefinitionError

LONGEST = 300.0
"""Seconds code may take where an executor that must have a limit is given none."""
START_UP = 30.0
"""Seconds beside the code's own that an execution may take, unless an executor knows better."""


class BaseCodeExecutor(BaseModel):
    """Runs the code blocks of an agent's model (semantics FLW-90)."""

    model_config = ConfigDict(arbitrary_types_allowed=True)

    optimize_data_file: bool = False
    """Give data files of user messages (CSV) to the code, and to the model only their names."""
    stateful: bool = False
    """Whether variables live on; then `CodeExecutionInput.execution_id` names their session."""
    error_retry_attempts: int = Field(default=2, ge=0)
    """Failures in a row, within an invocation, after which no more code is run."""
    code_block_delimiters: list[tuple[str, str]] = [
        ("```tool_code\n", "\n```"),
        ("```python\n", "\n```"),
    ]
    """What opens and closes code in the model's text; the first pair shows it earlier code."""
    execution_result_delimiters: tuple[str, str] = ("```tool_output\n", "\n```")
    """What encloses earlier results that the model is shown."""
    timeout_seconds: float | None = Field(default=None, gt=0)
    """Seconds one execution may take; None: no limit of the executor's own."""

    @property
    def attempt_timeout(self) -> float | None:
        """Seconds after which an execution is given up, its start included; None: as for tools."""
        return None if self.timeout_seconds is None else self.timeout_seconds + START_UP

    @abstractmethod
    def execute_code(
        self, invocation_context: CallbackContext, code_execution_input: CodeExecutionInput
    ) -> CodeExecutionResult | Awaitable[CodeExecutionResult]:
        """Run some code; may be sync or async.

        Called in an activity, at least once: when the worker dies before the result is stored, the
        same code is run again with the same `execution_id`.

        Args:
            invocation_context: The step's context. It has ADK's name; its state is writable, and
                what is written is stored with the result.
            code_execution_input: The code and its files.

        Raises:
            CodeExecutorError: The code could not be run at all. It fails the run, and so does any
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
"""The `stateful` of an executor that starts every execution afresh."""
