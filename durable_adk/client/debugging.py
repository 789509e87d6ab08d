"""For scripts and experiments: synchronous iteration, and events as text (RUN-28, RUN-31)."""

import asyncio
import json
import queue
import threading
from collections.abc import AsyncGenerator, Callable, Coroutine, Generator, Iterable
from contextlib import aclosing, suppress
from typing import Any, TypeVar

from google.genai import types

from durable_adk.events.event import Event

T = TypeVar("T")
_PAUSE = 0.02
"""Seconds between checks whether a loop still has work."""
MAX_VALUE = 200
"""Maximum characters printed of a call's arguments, a response or code's output."""


def show(event: Event, *, verbose: bool) -> None:
    """Print an event in ADK's form, or its output; partial ones are skipped.

    Committed events repeat the text of partial ones.

    Args:
        event: The event.
        verbose: Also print thoughts, calls, responses and other parts.
    """
    if event.partial is True:
        return
    for line in _lines(event, verbose=verbose):
        print(f"{event.author} > {line}")  # noqa: T201  # printing is its purpose


def _lines(event: Event, *, verbose: bool) -> Iterable[str]:
    text = ""
    for part in (event.content.parts if event.content else None) or []:
        if part.text:
            text += part.text if verbose or not part.thought else ""
            continue
        if text:
            yield text
        text = ""
        if verbose and (said := _said(part)):
            yield f"[{said}]"
    if text:
        yield text
    if not event.content and event.output is not None:
        yield json.dumps(event.output, ensure_ascii=False)
    if not event.content and event.error_code:
        yield f"[error {event.error_code}: {event.error_message}]"


def _said(part: types.Part) -> str | None:
    if call := part.function_call:
        return f"Calling tool: {call.name}({_short(call.args)})"
    if response := part.function_response:
        return f"Tool result: {_short(response.response)}"
    if code := part.executable_code:
        return f"Executing {(code.language or 'unknown').lower()} code..."
    if result := part.code_execution_result:
        return f"Code output: {_short(result.output)}"
    if data := part.inline_data:
        return f"Inline data: {data.mime_type}"
    return part.file_data and f"File: {part.file_data.file_uri}"


def _short(value: object) -> str:
    text = str(value or "")
    return text if len(text) <= MAX_VALUE else f"{text[:MAX_VALUE]}..."


class SyncLoop:
    """Iterates over async generators for code without an event loop, in a thread that has one.

    So this works inside a running loop too (TRAP-46). The thread stays while its loop has work,
    such as an invocation that waits for an answer, which the next generator may send.

    Args:
        busy: Returns whether the running loop has work left.
    """

    def __init__(self, busy: Callable[[], bool]) -> None:
        self._busy = busy
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._pumps = 0

    def iterate(self, make: Callable[[], AsyncGenerator[T, None]]) -> Generator[T, None, None]:
        """Yield the items of a generator; its exceptions are raised here.

        Closing this generator early closes the async one.
        """
        items: queue.Queue[T | BaseException | None] = queue.Queue(maxsize=1)
        stopped, ended = threading.Event(), threading.Event()

        async def pump() -> None:
            end: BaseException | None = None
            try:
                async with aclosing(make()) as values:
                    async for value in values:
                        await asyncio.to_thread(items.put, value)
                        if stopped.is_set():
                            break
            except BaseException as error:  # noqa: BLE001 - re-raised in the caller's thread
                end = error
            await asyncio.to_thread(items.put, end)
            ended.set()

        self._start(pump)
        try:
            while (item := items.get()) is not None:
                if isinstance(item, BaseException):
                    raise item
                yield item
        finally:
            stopped.set()
            while not ended.is_set():
                with suppress(queue.Empty):
                    items.get(timeout=0.05)  # the pump may be putting one more item

    def _start(self, pump: Callable[[], Coroutine[Any, Any, None]]) -> None:
        with self._lock:
            self._pumps += 1
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                name = "durable-adk-run"
                threading.Thread(
                    target=_run, args=(self._loop, self._serve()), name=name, daemon=True
                ).start()
            asyncio.run_coroutine_threadsafe(self._counted(pump), self._loop)

    async def _counted(self, pump: Callable[[], Coroutine[Any, Any, None]]) -> None:
        try:
            await pump()
        finally:
            with self._lock:
                self._pumps -= 1

    async def _serve(self) -> None:
        """Keep the loop running until it has no work left."""
        while True:
            with self._lock:
                if not self._pumps and not self._busy():
                    self._loop = None
                    return
            await asyncio.sleep(_PAUSE)


def _run(loop: asyncio.AbstractEventLoop, work: Coroutine[Any, Any, None]) -> None:
    with asyncio.Runner(loop_factory=lambda: loop) as runner:
        runner.run(work)
