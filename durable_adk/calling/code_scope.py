"""Confines SystemExit and the like of user code to that code, so that the event loop survives."""

import asyncio
import traceback
from collections.abc import Callable, Coroutine
from contextvars import Context, ContextVar, copy_context
from types import TracebackType
from typing import Any, NoReturn, Self, TypeVar, cast

from durable_adk.errors import (
    DurableAdkError,
    WorkerStuckError,
    frames_of,
    text_of,
    wrapped,
)
from durable_adk.log import get_logger

E = TypeVar("E", bound=DurableAdkError)
_scope: ContextVar["CodeScope | None"] = ContextVar("scope", default=None)

DISTURBED = "Other user code has cancelled tasks of this step, which is run again."

logger = get_logger(__name__)


class CodeScope:
    """A context manager for user code: any exception leaves it as an Exception.

    asyncio raises SystemExit and KeyboardInterrupt of any task, timer or callback out of its event
    loop, which would end the work of all users. In a loop set up by `keep_running`, they end the
    innermost open scope in which the task, timer or callback was created: its code is cancelled,
    and the scope raises them. They are also logged, because the code may have ended before.

    Args:
        base: Class of the error that the scope raises; None: a RuntimeError.
        outermost: Whether the scopes around this one belong to other code.
        stepped: Whether it is entered for each step of a generator, until `end`. An exception
            between two steps is raised by the next one.
    """

    def __init__(
        self,
        base: type[DurableAdkError] | None = None,
        *,
        outermost: bool = False,
        stepped: bool = False,
    ) -> None:
        self._base = base
        around = _scope.get()
        self._outer = None if outermost else around
        self.around = around if outermost else None
        """The scope around an outermost one: a batch of steps has one around those of its steps."""
        self._stepped = stepped
        self._before: CodeScope | None = None
        self._task: asyncio.Task[Any] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._cancelling = 0
        self._failure: BaseException | None = None
        self.refusal: DurableAdkError | None = None
        """The error with which the code was refused something, and must end."""
        self._is_open = stepped
        self.outermost: CodeScope = self if self._outer is None else self._outer.outermost
        """The scope of the step, which is the runtime's own code."""
        self.is_disturbed = False
        """Whether the code of another step has cancelled tasks of this outermost scope."""

    def __enter__(self) -> Self:
        """Enter user code in the current task."""
        if self._failure is not None:
            self._raise(self._failure)
        self._task, self._loop = asyncio.current_task(), asyncio.get_running_loop()
        self._cancelling = self._task.cancelling() if self._task else 0
        self._before, self._is_open = _scope.get(), True
        _scope.set(self)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        """Raise the code's exception as an Exception, or that of a task of it that ended the code.

        As with `asyncio.timeout`, a result that exists in spite of the cancellation is kept.
        """
        task, self._task = self._task, None
        self._is_open = self._stepped
        if _scope.get() is self:  # an abandoned coroutine is closed in another context
            _scope.set(self._before)
        if isinstance(error, GeneratorExit) and task is not _running():
            return  # that is how Python closes a coroutine
        if self._failure is not None and task is not None:
            others = task.uncancel() > self._cancelling
            if isinstance(error, asyncio.CancelledError) and not others:
                self._raise(self._failure)
        if isinstance(error, asyncio.CancelledError) and self._is_of_others(task):
            if self.is_disturbed and task is not None and not task.cancelling():
                raise WorkerStuckError(DISTURBED) from error
            return
        if error is not None and not isinstance(error, Exception):
            self._raise(error)
        if self.refusal not in (None, error):
            raise self.refusal  # the code has caught it

    def _is_of_others(self, task: "asyncio.Task[Any] | None") -> bool:
        """Return whether the cancellation is not by the scope's own code, and must propagate."""
        return task is None or bool(task.cancelling()) or self.outermost.is_disturbed

    def has_within(self, other: "CodeScope") -> bool:
        """Return whether an outermost scope is this one, or was made in it, as a batch's steps."""
        within: CodeScope | None = other
        while within is not None and within is not self:
            within = within.around and within.around.outermost
        return within is self

    def runs_in(self, loop: asyncio.AbstractEventLoop) -> bool:
        """Return whether the scope was last entered in an event loop."""
        return self._loop is loop

    def end(self) -> None:
        """End a `stepped` scope."""
        self._is_open = False

    def _raise(self, error: BaseException) -> NoReturn:
        text = f"User code raised {type(error).__name__}: {text_of(error)}"
        made = RuntimeError(text).with_traceback(error.__traceback__)
        made.__cause__ = error
        raise made if self._base is None else wrapped(self._base, made)

    def fail(self, error: BaseException) -> None:
        """End the innermost open scope with the exception of a task or callback of its code."""
        if not self._is_open:
            if self._outer is not None:
                self._outer.fail(error)
        elif self._failure is None:
            self._failure = error
            if self._task is not None:
                self._task.cancel()


def refused(error: E) -> E:
    """Return an error for the caller to raise; its code ends with it, even if it catches it."""
    scope = _scope.get()
    if scope is not None:
        scope.refusal = scope.refusal or error
    return error


def raise_refusal() -> None:
    """Raise the error of a refusal that the code has caught."""
    scope = _scope.get()
    if scope is not None and scope.refusal is not None:
        raise scope.refusal


def is_disturbed() -> bool:
    """Return whether the code of another step has cancelled tasks of the current one."""
    scope = _scope.get()
    return scope is not None and scope.outermost.is_disturbed


class CodeTask(asyncio.Task[Any]):
    """A task in a loop that runs the code of several steps.

    Code that cancels all tasks of its loop only cancels those of its own step. If the code of
    another step cancels a task that the runtime created, the task's step is marked instead: that
    step's code may have had tasks that were cancelled too, and its libraries may cancel tasks of
    their own on behalf of others.
    """

    is_cancelled_by_code = False
    """Whether the step's own code has cancelled it."""

    def __init__(
        self, coro: Coroutine[Any, Any, Any], *, context: Context | None = None, **options: Any
    ) -> None:
        self._within = copy_context() if context is None else context
        made_in = self._within.get(_scope)
        self._is_of_runtime = made_in is not None and made_in.outermost is made_in
        super().__init__(coro, context=self._within, **options)

    def cancel(self, msg: Any | None = None) -> bool:
        """Cancel the task, unless the current code may not do so."""
        by, mine = _scope.get(), self._within.get(_scope)
        if by is not None and mine is not None and self._is_of_runtime:
            if not by.outermost.has_within(mine.outermost):
                mine.outermost.is_disturbed = True
                return False
            self.is_cancelled_by_code = by.outermost is not by
        return super().cancel(msg)


def runtime_context() -> Context:
    """Return a copy of the current context, for runtime tasks that run a step's scope."""
    context = copy_context()
    context.run(_scope.set, CodeScope(outermost=True))
    return context


def protect_tasks(loop: asyncio.AbstractEventLoop) -> None:
    """Make an event loop for several steps create each task as a `CodeTask`."""

    def create(
        loop: asyncio.AbstractEventLoop, coro: Coroutine[Any, Any, Any], **options: Any
    ) -> CodeTask:
        return CodeTask(coro, loop=loop, **options)

    loop.set_task_factory(cast("Any", create))


def can_keep_running(loop: asyncio.AbstractEventLoop) -> bool:
    """Return whether `keep_running` can protect an event loop; it cannot protect uvloop's."""
    return hasattr(loop, "_run_once")


def keep_running(loop: asyncio.AbstractEventLoop, *, whoever: bool) -> None:
    """Make an event loop survive SystemExit and KeyboardInterrupt of user code.

    They leave asyncio's loops, and the SDK's for workflows, through `_run_once`. Called again, it
    continues with the next callback. A loop without it (uvloop) is unchanged. User code also cannot
    stop the loop, or replace parts that other code in it uses: such methods raise a RuntimeError in
    it, as `loop.close()` does.

    Args:
        loop: The event loop, which runs in the current thread.
        whoever: Whether it also survives exceptions outside of any scope. A loop of an application
            raises these: they may be meant to end the application.
    """
    if not can_keep_running(loop) or "_run_once" in vars(loop):
        return
    run_once: Callable[..., None] = getattr(loop, "_run_once")  # noqa: B009 - asyncio's own

    def contained(*args: Any, **kwargs: Any) -> None:
        while True:
            try:
                run_once(*args, **kwargs)
            except (SystemExit, KeyboardInterrupt) as error:
                known, scope = _origin(error)
                if not (known or whoever):
                    raise
                loop.call_soon(_fail, scope, error)
            else:
                return

    vars(loop).update({name: _unless_called_by_code(loop, name) for name in _REFUSED})
    vars(loop)["_run_once"] = contained


_REFUSED = ("stop", "set_default_executor", "shutdown_default_executor", "set_task_factory")
"""Methods of a loop that end it or replace parts that other code in it uses."""


def _unless_called_by_code(loop: asyncio.AbstractEventLoop, name: str) -> Callable[..., Any]:
    method: Callable[..., Any] = getattr(loop, name)

    def call(*args: Any, **kwargs: Any) -> Any:
        scope = _scope.get()
        if scope is not None and scope.runs_in(loop):  # its code may run loops of its own
            raise RuntimeError(f"User code cannot call {name}() of the event loop that runs it.")
        return method(*args, **kwargs)

    return call


def _origin(error: BaseException) -> tuple[bool, CodeScope | None]:
    """Return whether user code raised an error, and in which scope, if known."""
    path = [frame for frame, _ in traceback.walk_tb(error.__traceback__)]
    if path[-1].f_code.co_filename == asyncio.runners.__file__:  # Ctrl-C in `asyncio.run`
        return False, None
    run = asyncio.Handle._run.__code__  # noqa: SLF001 - no other way to the context
    handle: Any = next((one.f_locals["self"] for one in path if one.f_code is run), None)
    scope: CodeScope | None = handle and handle._context.get(_scope)  # noqa: SLF001
    task: Any = getattr(handle and handle._callback, "__self__", None)  # noqa: SLF001
    if isinstance(task, asyncio.Task) and not hasattr(cast("Any", task).get_coro(), "cr_frame"):
        return scope is not None, None  # it closes a generator, in another context
    return scope is not None, scope


def _fail(scope: CodeScope | None, error: BaseException) -> None:
    if scope is not None:  # before logging, whose filters are user code too
        scope.fail(error)
    at = frames_of(error)
    logger.error("user_code.raised", error_type=type(error).__name__, at=at[-1:], stack=at)


def _running() -> asyncio.Task[Any] | None:
    try:
        return asyncio.current_task()
    except RuntimeError:
        return None
