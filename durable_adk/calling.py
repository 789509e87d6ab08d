"""Calls user code, sync or async, so that it neither blocks nor ends the event loop."""

import asyncio
import inspect
import traceback
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing, asynccontextmanager, suppress
from contextvars import Context, ContextVar, copy_context
from functools import partial
from types import TracebackType
from typing import Any, NoReturn, Self, TypeVar, cast

from durable_adk.errors import DurableAdkError, frames_of, text_of, wrapped
from durable_adk.log import get_logger

T = TypeVar("T")
OBEY = 5.0
"""Seconds that code has to end in when its result is not wanted any more."""
_limit: ContextVar[asyncio.Timeout | None] = ContextVar("limit", default=None)
_scope: ContextVar["CodeScope | None"] = ContextVar("scope", default=None)

logger = get_logger(__name__)


async def call(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Call a function; a sync one runs in a thread, so it may block (semantics OPEN-7, CB-3).

    Context variables are available in the thread too. Results and exceptions pass through
    unchanged; only StopIteration and GeneratorExit become a RuntimeError.
    """
    if inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(
        type(function).__call__  # an object with an async __call__
    ):
        return await function(*args, **kwargs)
    result = await _in_thread(partial(_without_stop_iteration, function, *args, **kwargs))
    # A sync wrapper around an async function returns the coroutine.
    return await result if inspect.isawaitable(result) else result


async def contained(work: Awaitable[T], *, instead: "asyncio.Future[T] | None" = None) -> T:
    """Await user code; convert whatever it raises to an Exception that fails the run.

    The code runs in a task of its own. So `asyncio.current_task().cancel()`, or a cancel scope that
    a library leaks, ends the code and not its step, which would be run again as after a lost
    worker. See `CodeScope` for what its tasks and callbacks raise.

    Args:
        work: The code.
        instead: Once it has a result, the code is cancelled, and that is the result, whatever the
            code does: its `except` clauses cannot keep anything from the caller.

    Raises:
        CancelledError: The caller's task was cancelled.
        RuntimeError: The code was cancelled by anything else, or raised what is no Exception.
    """
    results: list[T] = []

    async def run() -> None:
        results.append(await work)

    context = copy_context()
    task = _started(run, context)
    try:
        if instead is not None:
            await _first(task, instead)
            if instead.done():
                return instead.result()
        await task
    except asyncio.CancelledError as error:
        if _is_cancelled():
            raise
        if not results:  # otherwise the code returned before the cancellation took effect
            raise RuntimeError(_CANCELLED) from error
    finally:
        if task.done() and inspect.iscoroutine(work):
            work.close()  # it may have been cancelled before it began
        for variable, value in context.items():
            if variable.get(None) is not value:
                variable.set(value)  # as if the code had run in the caller's task
    return results[0]


async def contained_items(items: AsyncGenerator[T]) -> AsyncGenerator[T]:
    """Iterate over a generator of user code as `contained` awaits a coroutine.

    All of it runs in one task, because a time limit or cancel scope round a `yield` belongs to a
    task. The generator is resumed when the next item is asked for.
    """
    made: asyncio.Queue[T | None] = asyncio.Queue()
    asked = asyncio.Semaphore(0)
    wanted = True

    async def run() -> None:
        async with aclosing(items):
            async for item in items:
                made.put_nowait(item)
                if not wanted:  # the code has caught its cancellation
                    return
                await asked.acquire()

    task = _started(run, copy_context())
    task.add_done_callback(lambda _: made.put_nowait(None))
    try:
        while (item := await made.get()) is not None:
            yield item
            asked.release()
        task.result()
    except asyncio.CancelledError as error:
        if _is_cancelled():
            raise
        raise RuntimeError(_CANCELLED) from error
    finally:
        wanted = False
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def _started(code: Callable[[], Awaitable[None]], context: Context) -> "asyncio.Task[None]":
    async def run() -> None:
        with CodeScope():
            await code()

    caller = asyncio.current_task()
    # The watchdog finds by the name whose step blocks the loop.
    return asyncio.create_task(run(), context=context, name=caller and caller.get_name())


async def _first(task: "asyncio.Task[None]", instead: "asyncio.Future[Any]") -> None:
    """Wait for either; cancel the task in the second case, or if the caller is cancelled."""
    try:
        await asyncio.wait([task, instead], return_when=asyncio.FIRST_COMPLETED)
    except asyncio.CancelledError:
        task.cancel()
    if instead.done():
        task.add_done_callback(lambda _: task.cancelled() or task.exception())
        task.cancel()
        await asyncio.wait([task], timeout=OBEY)


def _is_cancelled() -> bool:
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


_CANCELLED = (
    "User code raised CancelledError, or was cancelled by code of its own process; the step was "
    "not cancelled."
)


@asynccontextmanager
async def time_limit(seconds: float) -> AsyncGenerator[asyncio.Timeout]:
    """Like `asyncio.timeout`, but excludes the time that a sync function waits for a thread.

    That wait says nothing about the function, and is zero unless other functions use up the
    threads.
    """
    async with asyncio.timeout(seconds) as limit:
        before = _limit.get()
        _limit.set(limit)
        try:
            yield limit
        finally:
            _limit.set(before)  # no `reset`: an abandoned generator is finalized in another context


async def _in_thread(work: Callable[[], T]) -> T:
    loop, limit = asyncio.get_running_loop(), _limit.get()
    left = _stop(limit)
    if limit is None or left is None:
        return await asyncio.to_thread(work)

    def timed() -> T:
        _limit.set(None)  # the limit belongs to this loop; the function may run its own
        loop.call_soon_threadsafe(_go_on, limit, loop.time() + left)
        return work()

    try:
        return await asyncio.to_thread(timed)
    finally:
        _go_on(limit, loop.time() + left)


def _stop(limit: asyncio.Timeout | None) -> float | None:
    """Stop a time limit; return the seconds left, or None if it is not running."""
    until = limit.when() if limit is not None else None
    if limit is None or until is None:
        return None
    try:
        limit.reschedule(None)
    except RuntimeError:  # it has expired or ended
        return None
    return until - asyncio.get_running_loop().time()


def _go_on(limit: asyncio.Timeout, until: float) -> None:
    """Restart a stopped time limit."""
    if limit.when() is None:
        with suppress(RuntimeError):  # it has ended in the meantime
            limit.reschedule(until)


def _without_stop_iteration(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    try:
        return function(*args, **kwargs)
    except (StopIteration, GeneratorExit) as error:  # no future can carry them
        name = getattr(function, "__name__", type(function).__name__)
        raise RuntimeError(f"{name} raised {type(error).__name__}.") from error


class CodeScope:
    """A context manager for user code: whatever that raises leaves it as an Exception.

    asyncio raises SystemExit and KeyboardInterrupt of any task, timer or callback out of its event
    loop, where they would end everybody's work. In a loop that `keep_running` knows, they end the
    innermost open scope in which the task, timer or callback was created: its code is cancelled,
    and the scope raises them. They are also logged, as nobody waits for what comes later.

    Args:
        base: Class of the error that the scope raises; None: a RuntimeError.
        outermost: Whether the scopes around this one are somebody else's.
        stepped: Whether it is entered for each step of a generator, until `end`. What is raised
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
        self._outer = None if outermost else _scope.get()
        self._stepped = stepped
        self._before: CodeScope | None = None
        self._task: asyncio.Task[Any] | None = None
        self._cancelling = 0
        self._failure: BaseException | None = None
        self._is_open = stepped

    def __enter__(self) -> Self:
        """Begin some code in the current task."""
        if self._failure is not None:
            self._raise(self._failure)
        self._task = asyncio.current_task()
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
        """Raise what the code has raised as an Exception, and what its tasks have if that ended it.

        As with `asyncio.timeout`, a result that is there in spite of the cancellation stands.
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
        if error is not None and not isinstance(error, (Exception, asyncio.CancelledError)):
            self._raise(error)

    def end(self) -> None:
        """End a `stepped` scope."""
        self._is_open = False

    def _raise(self, error: BaseException) -> NoReturn:
        text = f"User code raised {type(error).__name__}: {text_of(error)}"
        made = RuntimeError(text).with_traceback(error.__traceback__)
        made.__cause__ = error
        raise made if self._base is None else wrapped(self._base, made)

    def fail(self, error: BaseException) -> None:
        """End the innermost open scope with what a task or callback of its code has raised."""
        if not self._is_open:
            if self._outer is not None:
                self._outer.fail(error)
        elif self._failure is None:
            self._failure = error
            if self._task is not None:
                self._task.cancel()


def keep_running(loop: asyncio.AbstractEventLoop, *, whoever: bool) -> None:
    """Have an event loop survive SystemExit and KeyboardInterrupt of user code.

    They leave asyncio's loops, and the SDK's for workflows, by `_run_once`, which goes on with the
    next callback when it is called again. A loop without it (uvloop) is left as it is.

    Args:
        loop: The event loop, which runs in the current thread.
        whoever: Whether it survives what no scope's code has raised, too. A loop that belongs to
            an application raises that: it may be what the application is to end with.
    """
    if not hasattr(loop, "_run_once") or "_run_once" in vars(loop):
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

    vars(loop)["_run_once"] = contained


def _origin(error: BaseException) -> tuple[bool, CodeScope | None]:
    """Return whether user code has raised an error, and in which scope, if that is known."""
    path = [frame for frame, _ in traceback.walk_tb(error.__traceback__)]
    if path[-1].f_code.co_filename == asyncio.runners.__file__:  # Ctrl-C in `asyncio.run`
        return False, None
    run = asyncio.Handle._run.__code__  # noqa: SLF001 - no other way to the context
    handle: Any = next((one.f_locals["self"] for one in path if one.f_code is run), None)
    scope: CodeScope | None = handle and handle._context.get(_scope)  # noqa: SLF001
    task: Any = getattr(handle and handle._callback, "__self__", None)  # noqa: SLF001
    if isinstance(task, asyncio.Task) and not hasattr(cast("Any", task).get_coro(), "cr_frame"):
        return scope is not None, None  # it closes a generator, in the context of who collected it
    return scope is not None, scope


def _fail(scope: CodeScope | None, error: BaseException) -> None:
    at = frames_of(error)
    logger.error("user_code.raised", error_type=type(error).__name__, at=at[-1:], stack=at)
    if scope is not None:
        scope.fail(error)


def _running() -> asyncio.Task[Any] | None:
    try:
        return asyncio.current_task()
    except RuntimeError:
        return None
