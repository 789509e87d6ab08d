"""All exceptions of the package, and what each one means for the run.

::

    DurableAdkError
    +-- CallerError                    refused before anything is stored; fix the call
    |   +-- InvalidRequestError        (ValueError)
    |   |   +-- AlreadyAnsweredError
    |   +-- StateValueError            (ValueError) a value that is not JSON
    |   +-- PayloadTooLargeError       (ValueError)
    |   +-- AgentDefinitionError       (ValueError)
    |   |   +-- AgentNotFoundError
    |   |   +-- GraphValidationError
    |   |   +-- WorkflowConfigurationError
    |   +-- UnknownAppError            (ValueError)
    |   +-- NotFoundError
    |   |   +-- SessionNotFoundError   (ValueError)
    |   |   +-- InvocationNotFoundError (ValueError)
    |   +-- AlreadyExistsError         (ValueError)
    |   +-- StaleSessionError          (ValueError)
    |   +-- SessionBusyError
    |   +-- QueueFullError
    |   +-- NotInLoopError
    |   +-- SearchAttributesError
    |   +-- AuthenticationError
    |   +-- PermissionDeniedError
    |   +-- RateLimitError
    |   +-- AmbiguousInvocationError
    |   +-- RequestNotRebuiltError
    +-- RunError                       ends the run: a stored error event, then raised
    |   +-- LlmCallsLimitExceededError
    |   +-- BudgetExceededError
    |   +-- InstructionError           (KeyError)
    |   +-- OutputSchemaError          (ValueError)
    |   +-- ModelError
    |   +-- ToolError
    |   +-- ToolTimeoutError           (TimeoutError)
    |   +-- ToolResultError            (ValueError)
    |   +-- CallbackError
    |   +-- CodeExecutorError
    |   +-- AgentError
    |   |   +-- AgentWaitsError
    |   +-- DynamicNodeFailError
    |   +-- NodeTimeoutError
    |   +-- StateSchemaError           (TypeError)
    |   +-- WorkflowDataError          (ValueError)
    |   +-- WorkflowInvariantError     (RuntimeError)
    |   +-- DeterminismError
    |   +-- EventConflictError
    |   +-- StateConflictError
    |   +-- LeaseLostError
    |   +-- PayloadLostError
    |   +-- InvocationCancelledError
    |   +-- InvocationTerminatedError
    |   +-- WebhookRefusedError
    +-- TransientError                 retried; reaches a caller when retries time out
        +-- StoreUnavailableError
        |   +-- SessionRegressedError
        |   +-- SchemaOutdatedError
        +-- ModelUnavailableError
        +-- ToolsetUnavailableError
        |   +-- MissingCredentialError
        +-- EncryptionKeyError
        +-- NoWorkerError
        +-- TemporalUnavailableError
        +-- IdentityProviderError
        +-- WebhookError
        +-- WorkerStuckError

The second level is the retry class (D11): it alone decides what the workflow and the
activities do with an error. An error crosses a process boundary as its class name and message, and
`rebuild` recreates the class on the other side (DUR-10).

An exception of user code is reported by an error of this tree. `as_raised` returns it to user code:
the exception itself in the process that raised it, elsewhere an instance of its class.
"""

import builtins
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any, ClassVar, Self

from durable_adk.errors.user_error import UNFIT, UserError, frames_of, made, storable, text_of


class DurableAdkError(Exception):
    """Something went wrong in durable_adk."""

    error_type: str
    """Name of the exception that was raised first."""
    code: ClassVar[str | None] = None
    """The error event's `error_code`, if ADK's exception has another name (RUN-8)."""
    original: Exception | None = None
    """The reported exception of user code, only in the process that raised it."""
    user: UserError | None = None
    """The reported exception of user code, in any process."""
    node_path: str | None = None
    """The path of the node of a graph that failed, once an event reports it."""

    def __init__(self, message: str | None = None, *, error_type: str | None = None) -> None:
        self.message = storable(message or (type(self).__doc__ or "").partition("\n")[0])
        self.error_type = error_type or type(self).__name__
        super().__init__(self.message)

    def __str__(self) -> str:
        return self.message  # KeyError would show its repr


class CallerError(DurableAdkError):
    """The call cannot be carried out as it is, and has changed nothing.

    If an agent's own code or definition raises it inside a run, it fails the run like a `RunError`.
    """


class InvalidRequestError(CallerError, ValueError):
    """The request is malformed."""

    code = "ValueError"


class AlreadyAnsweredError(InvalidRequestError):
    """The call has an answer, or was decided without one."""


class StateValueError(CallerError, ValueError):
    """The value is not JSON, so it could not be stored and read back unchanged."""


class PayloadTooLargeError(CallerError, ValueError):
    """The value is larger than one message may be."""


class AgentDefinitionError(CallerError, ValueError):
    """The agent, app or tool is not defined correctly."""


class AgentNotFoundError(AgentDefinitionError):
    """The app has no agent of this name, here or any more."""


class GraphValidationError(AgentDefinitionError):
    """The graph is not well formed."""


class WorkflowConfigurationError(AgentDefinitionError):
    """The workflow, node or edge is not declared correctly."""


class UnknownAppError(CallerError, ValueError):
    """No app of this name is served here."""


class NotFoundError(CallerError):
    """The requested object does not exist."""


class SessionNotFoundError(NotFoundError, ValueError):
    """The session does not exist."""


class InvocationNotFoundError(NotFoundError, ValueError):
    """The session has no invocation of this id."""


class AlreadyExistsError(CallerError, ValueError):
    """Something of this id exists already."""


class StaleSessionError(CallerError, ValueError):
    """The session was changed in storage after this copy of it was read; read it again."""


class SessionBusyError(CallerError):
    """Another invocation is active in this session.

    `ahead` is the number of tickets ahead, `remaining` the estimated seconds until its turn.
    """

    def __init__(
        self, message: str | None = None, *, ahead: int = 0, remaining: float = 0.0
    ) -> None:
        super().__init__(message)
        self.ahead = ahead
        self.remaining = remaining


class QueueFullError(CallerError):
    """Too many messages wait already, for this session or for the sessions of this user."""


class NotInLoopError(CallerError):
    """The value does not exist inside the deterministic loop, only in tools and callbacks."""


class SearchAttributesError(CallerError):
    """The search attributes cannot be registered; everything works without them."""


class AuthenticationError(CallerError):
    """The server does not know who sends the request."""


class PermissionDeniedError(CallerError):
    """The sender of the request is known, and may not do this."""


class RateLimitError(CallerError):
    """The caller has sent too many requests; wait, then send this one again."""


class AmbiguousInvocationError(CallerError):
    """Several sessions have an invocation of this id; say which session is meant."""


class RequestNotRebuiltError(CallerError):
    """The agents' present code cannot build the request of a model call."""


class RunError(DurableAdkError):
    """The run has failed."""


class LlmCallsLimitExceededError(RunError):
    """The run made more model calls than RunConfig.max_llm_calls allows."""


class BudgetExceededError(RunError):
    """The invocation has used up its budget of model calls, tool calls, tokens or time."""


class InstructionError(RunError, KeyError):
    """The instruction names a state variable or artifact that does not exist."""

    code = "KeyError"


class OutputSchemaError(RunError, ValueError):
    """The model's answer does not fit the agent's output_schema."""

    code = "ValidationError"


class ModelError(RunError):
    """The model provider refused the request."""


class ToolError(RunError):
    """A tool raised an exception."""


class ToolTimeoutError(RunError, TimeoutError):
    """A tool did not finish in its time."""


class ToolResultError(RunError, ValueError):
    """A tool's result cannot be stored: it is not JSON, or too large."""


class CallbackError(RunError):
    """A callback raised an exception."""


class CodeExecutorError(RunError):
    """The code that a model wrote could not be run at all; code that runs and fails is a result."""


class AgentError(RunError):
    """An agent's own code raised an exception."""


class AgentWaitsError(AgentError):
    """An agent that is used as a tool would have to wait for an answer."""


class DynamicNodeFailError(RunError):
    """A node that another node ran has failed (GR-3).

    `error` is its exception, `error_node_path` its path; `status_code` and `details` are those of
    the exception, if it has them. They are None and empty in another process.
    """

    def __init__(
        self,
        message: str | None = None,
        *,
        error: Exception | None = None,
        error_node_path: str = "",
        error_type: str | None = None,
    ) -> None:
        super().__init__(message, error_type=error_type)
        self.error, self.error_node_path = error, error_node_path
        # google-genai calls the status `code`; libraries over httpx keep the body in `response`.
        self.status_code: Any = getattr(error, "status_code", getattr(error, "code", None))
        self.details: Any = getattr(error, "details", None)
        if self.details is None:
            self.details = getattr(getattr(error, "response", None), "text", None)


class NodeTimeoutError(RunError):
    """A node did not finish in its time (GR-3).

    `node_name` is the node's name, and `timeout` the seconds; both are empty in another process.
    """

    def __init__(
        self,
        message: str | None = None,
        *,
        node_name: str = "",
        timeout: float = 0.0,
        error_type: str | None = None,
    ) -> None:
        text = f"Node '{node_name}' timed out after {timeout:g} seconds." if node_name else None
        super().__init__(message or text, error_type=error_type)
        self.node_name, self.timeout = node_name, timeout


class NodeInterruptedError(BaseException):
    """A node that another node runs waits for an answer (GR-3).

    Not an Exception, so that ``except Exception`` around `Context.run_node` does not catch it.
    """


class StateSchemaError(RunError, TypeError):
    """A change of the state, or a parameter that is read from it, does not fit the schema."""


class WorkflowDataError(RunError, ValueError):
    """The data of this run does not fit the node that gets it."""


class WorkflowInvariantError(RunError, RuntimeError):
    """The graph is in a state that this package excludes; please report it."""


class DeterminismError(RunError):
    """A custom agent's _run_async_impl did something that cannot be replayed."""


class EventConflictError(RunError):
    """Another event with the same id is stored already.

    `field` is the field in which a request differs from an earlier one with the same id, or None.
    """

    def __init__(self, message: str | None = None, *, field: str | None = None) -> None:
        super().__init__(message)
        self.field = field


class StateConflictError(RunError):
    """Code that ran at the same time has changed the same state value differently.

    `key` is the key of the state.
    """

    def __init__(self, message: str | None = None, *, key: str = "") -> None:
        super().__init__(message)
        self.key = key


class LeaseLostError(RunError):
    """The invocation no longer holds its session's lease, so it may not write."""


class PayloadLostError(RunError):
    """A value stored outside of Temporal is lost, or belongs to another workflow."""


class InvocationCancelledError(RunError):
    """The invocation was cancelled."""


class InvocationTerminatedError(RunError):
    """The invocation's workflow was closed from outside before it could end itself."""


class WebhookRefusedError(RunError):
    """The receiver of a webhook rejected it; it is not sent again."""


class TransientError(DurableAdkError):
    """Something is unavailable right now.

    `retry_after` is the delay in seconds that the service requests, or None.
    """

    def __init__(
        self,
        message: str | None = None,
        *,
        retry_after: float | None = None,
        error_type: str | None = None,
    ) -> None:
        super().__init__(message, error_type=error_type)
        self.retry_after = retry_after


class StoreUnavailableError(TransientError):
    """The session store does not answer; whether the last write happened is unknown."""


class SessionRegressedError(StoreUnavailableError):
    """The session store is older than the run that uses it; run `durable-adk doctor --fix`.

    Most likely a backup was restored (I21). Nothing may be appended, or the session would diverge
    from the events that the run has seen. The run waits for the repair without limit, then
    continues by itself.
    """


class SchemaOutdatedError(StoreUnavailableError):
    """The session store's tables are of an older version; run `durable-adk db upgrade`.

    A starting process fails at once; a run waits for the upgrade as for an unavailable store.
    """


class ModelUnavailableError(TransientError):
    """The model provider is overloaded or out of reach."""

    def delay(self, attempt: int) -> float:
        """Return the seconds to wait after attempt 1, 2, ...: `retry_after`, or 1, 2, 4 ... 30."""
        grown = min(2.0 ** min(attempt - 1, 5), 30.0)
        return grown if self.retry_after is None else self.retry_after


class ToolsetUnavailableError(TransientError):
    """A toolset cannot list its tools."""


class MissingCredentialError(ToolsetUnavailableError):
    """A toolset without tools has no credential: none is given or stored, or it is refused."""


class EncryptionKeyError(TransientError):
    """A payload is encrypted with a key that is not here; give this process the key.

    Without the key a worker fails only the task, which is retried, and never an invocation.
    """


class NoWorkerError(TransientError):
    """No worker listens on the task queue."""

    invocation_id: str | None = None
    """The invocation that starts or continues once there is a worker, without being sent again."""


class TemporalUnavailableError(TransientError):
    """The Temporal server does not answer."""


class IdentityProviderError(TransientError):
    """The identity provider's keys cannot be read, so its tokens cannot be checked."""


class WebhookError(TransientError):
    """A webhook was not delivered; it is sent again."""


class WorkerStuckError(TransientError):
    """User code keeps this worker from its work; another worker takes its steps."""

    suspected = False
    """Whether this step's code is suspected of blocking the worker; if so, the attempt is lost."""


class NewerReleaseError(Exception):
    """A newer release of this package has written a value that cannot be read.

    Not a DurableAdkError, because that would end the invocation: the workflow task is retried.
    """


class _Foreign:
    """Marks the classes that `raised` creates, each named after the exception it represents."""

    base_name: ClassVar[str]


_SPECIAL = (
    *(OSError, UnicodeError, ImportError, SyntaxError),
    *(StopIteration, StopAsyncIteration, BaseExceptionGroup),
)
"""Builtins whose constructor or meaning differs from that of a plain exception."""


@cache
def _foreign_class(base: type[DurableAdkError], name: str) -> type[DurableAdkError]:
    original: Any = getattr(builtins, name, None)
    bases: tuple[type, ...] = (base, _Foreign)
    if isinstance(original, type) and _mixes_with(base, original):
        bases = (base, original, _Foreign)
    return type(base.__name__, bases, {"__doc__": base.__doc__, "base_name": base.__name__})


def _mixes_with(base: type[DurableAdkError], original: type) -> bool:
    ordinary = issubclass(original, Exception) and not issubclass(original, _SPECIAL)
    return ordinary and not issubclass(base, original)


def raised(base: type[DurableAdkError], name: str, message: str) -> DurableAdkError:
    """Return an error of class `base` that represents a user exception called `name`.

    If `name` is a builtin, the result is also an instance of it, so that ``except ValueError``
    around a run works wherever the tool ran (DUR-10).
    """
    error = _foreign_class(base, name)(message)
    error.error_type = name
    return error


def wrapped(base: type[DurableAdkError], error: Exception) -> DurableAdkError:
    """Return an error of class `base` that reports an exception of user code; see `as_raised`.

    It has the exception's text. An error of this package is returned unchanged.
    """
    if isinstance(error, DurableAdkError):
        if class_name(error) != type(error).__name__:  # a user's class below one of ours
            error.user = UserError.of(error)
        return error
    result = raised(base, type(error).__name__, "?")
    result.original, result.user = error, UserError.of(error)
    result.message = result.user.text
    result.args, result.__cause__ = (result.message,), error
    return result


@contextmanager
def reported_as(base: type[DurableAdkError]) -> Generator[None]:
    """Run user code in the body, and report its exceptions by errors of class `base`."""
    try:
        yield
    except Exception as error:  # noqa: BLE001 - user code may raise anything
        raise wrapped(base, error)  # noqa: B904 - it has its cause, and may be `error` itself


def as_raised(error: DurableAdkError) -> Exception:
    """Return the exception of user code for user code to catch.

    In the process that raised it, it is the same object; elsewhere an instance of its class, if an
    equal one can be made. If not, it is an instance of our class and of the nearest of the
    exception's base classes that this process has. Any other error is returned unchanged.
    """
    if error.original is not None and not isinstance(error.original, UNFIT):
        return error.original
    if error.user is None and error.error_type == type(error).__name__:
        return error
    return (error.user and error.user.rebuilt()) or _mixed(error)


def _mixed(error: DurableAdkError) -> DurableAdkError:
    base = CLASSES[class_name(error)]
    for kind in _nearest(error):
        if issubclass(base, kind):
            break
        try:
            both = type(base.__name__, (base, kind, _Foreign), {"base_name": base.__name__})
            result: Any = made(both, [error.message])
        except TypeError:  # the class cannot be a base
            continue
        result.message, result.error_type, result.user = error.message, error.error_type, error.user
        if error.user is not None:
            error.user.fill(result)
        return result
    return error


def _nearest(error: DurableAdkError) -> Iterator[type[Exception]]:
    if error.user is not None:
        yield from error.user.found()
    original: Any = getattr(builtins, error.error_type, None)  # `raised` knew only its name
    if isinstance(original, type) and issubclass(original, Exception):
        yield original


def class_name(error: DurableAdkError) -> str:
    """Return the name under which the error's class crosses a process boundary."""
    if isinstance(error, _Foreign):
        return error.base_name
    return next(kind.__name__ for kind in type(error).__mro__ if CLASSES.get(kind.__name__) is kind)


def _subclasses(base: type[DurableAdkError]) -> dict[str, type[DurableAdkError]]:
    found = {base.__name__: base}
    for child in base.__subclasses__():
        found |= _subclasses(child)
    return found


CLASSES: dict[str, type[DurableAdkError]] = _subclasses(DurableAdkError)
"""All classes above by name. Fixed at import, so classes made by `raised` are never included."""


def rebuild(name: str, message: str, *, error_type: str | None = None) -> DurableAdkError:
    """Recreate an error from its class name, message and original exception's name."""
    base = CLASSES.get(name)
    if base is None:
        return raised(RunError, name, message)
    if error_type and error_type != name:
        return raised(base, error_type, message)
    return base(message)


def describe(error: BaseException) -> tuple[str, str]:
    """Return the error event's (`error_code`, `error_message`) (RUN-8).

    As in ADK, an exception whose `status` is a string has that as its code.
    """
    if not isinstance(error, DurableAdkError):
        return type(error).__name__, storable(text_of(error))
    status = error.user and error.user.attributes.get("status")
    if isinstance(status, str):
        return storable(status, 200), error.message
    return error.code or error.error_type, error.message


class Detail(dict[str, Any]):
    """The JSON form of an error; in the process that made it, also the error itself."""

    def __init__(self, error: DurableAdkError) -> None:
        detail = {"class": class_name(error), "type": error.error_type, "message": error.message}
        super().__init__(detail)
        if error.user is not None:
            self["user"] = error.user.to_detail()
        self.error = error

    def __deepcopy__(self, memo: object) -> Self:
        return self  # never changed, and the error must stay the same object


def as_detail(error: DurableAdkError) -> dict[str, Any]:
    """Return the JSON form of an error, for `from_detail`."""
    return Detail(error)


def from_detail(detail: dict[str, Any]) -> DurableAdkError:
    """Recreate an error from the result of `as_detail`."""
    if isinstance(detail, Detail):
        return detail.error
    name, message = str(detail.get("class", "RunError")), str(detail.get("message", ""))
    error = rebuild(name, message, error_type=str(detail["type"]) if detail.get("type") else None)
    error.user = UserError.read(detail.get("user"))
    if error.user is not None:
        error.message = message  # it may be empty
    return error


def frames_in(detail: dict[str, Any]) -> list[str]:
    """Return the locations in user code through which an error passed, by its `as_detail`."""
    user = UserError.read(detail.get("user"))
    return [] if user is None else user.frames


def frames_of_error(error: BaseException) -> list[str]:
    """Return the locations in user code through which an error, or the one it reports, passed."""
    user = error.user if isinstance(error, DurableAdkError) else None
    return frames_of(error) if user is None else user.frames
