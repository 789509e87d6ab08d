"""The fields that executors have in common."""

import pytest
from pydantic import ValidationError

from durable_adk.code_executors import (
    BaseCodeExecutor,
    BuiltInCodeExecutor,
    CodeExecutorError,
    ContainerCodeExecutor,
    SubprocessCodeExecutor,
)
from durable_adk.errors import RunError, as_detail, from_detail


def test_the_defaults_are_adks() -> None:
    """FLW-90: the fields of ADK 2.13."""
    assert BuiltInCodeExecutor().model_dump() == {
        "optimize_data_file": False,
        "stateful": False,
        "error_retry_attempts": 2,
        "code_block_delimiters": [("```tool_code\n", "\n```"), ("```python\n", "\n```")],
        "execution_result_delimiters": ("```tool_output\n", "\n```"),
        "timeout_seconds": None,
    }


def test_the_port_is_abstract() -> None:
    """An executor that cannot execute is refused where it is made."""
    with pytest.raises(TypeError, match="execute_code"):
        BaseCodeExecutor()  # pyright: ignore[reportAbstractUsage]: the point


@pytest.mark.parametrize(
    ("kind", "fields"),
    [(SubprocessCodeExecutor, {"allow_unsafe": True}), (ContainerCodeExecutor, {"image": "x"})],
)
def test_an_executor_that_forgets_is_not_called_stateful(kind, fields) -> None:
    """A field that would not be kept is refused, when it is made and afterwards."""
    with pytest.raises(ValidationError, match="cannot be stateful"):
        kind(**fields, stateful=True)
    with pytest.raises(ValidationError, match="frozen"):
        kind(**fields).stateful = True


def test_the_error_fails_the_run_and_crosses_a_process() -> None:
    """D11, DUR-10: what cannot be run will not be able to next time."""
    copy = from_detail(as_detail(CodeExecutorError("no docker")))
    assert isinstance(copy, RunError)
    assert (copy.message, copy.error_type) == ("no docker", "CodeExecutorError")
