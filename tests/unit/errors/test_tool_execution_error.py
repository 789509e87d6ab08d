"""ADK's exceptions at ADK's paths."""

from durable_adk import errors
from durable_adk.errors.already_exists_error import AlreadyExistsError
from durable_adk.errors.input_validation_error import InputValidationError
from durable_adk.errors.not_found_error import NotFoundError
from durable_adk.errors.session_not_found_error import SessionNotFoundError
from durable_adk.errors.tool_execution_error import ToolErrorType, ToolExecutionError


def test_adks_names_are_at_its_paths() -> None:
    """What an application catches, it imports from one module each."""
    assert issubclass(InputValidationError, ValueError)
    assert InputValidationError is errors.InvalidRequestError
    assert issubclass(SessionNotFoundError, NotFoundError)
    assert issubclass(errors.InvocationNotFoundError, (NotFoundError, ValueError))
    assert AlreadyExistsError is errors.AlreadyExistsError
    failed = ToolExecutionError("no", error_type=ToolErrorType.NOT_FOUND)
    assert (str(failed), failed.message, failed.error_type) == ("no", "no", "NOT_FOUND")
    assert ToolExecutionError("no").error_type is None
