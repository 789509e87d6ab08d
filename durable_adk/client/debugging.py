"""For scripts and experiments: synchronous iteration, and events as text (RUN-28, RUN-31)."""

import asyncio
import json
import queue
import threading
from collections.abc import AsyncGenerator, Callable, Generator, Iterable
from contextlib import aclosing, suppress
from typing import TypeVar

from durable_adk.events.event import Event

T = TypeVar("T")
MAX_VALUE = 200
"""Characters printed of a call's arguments or of a response."""


def show(event: Event, *, verbose: bool) -> None:
    """Print an event; partial events are skipped, as the committed event repeats their text.

    Args:
        event: The event.
        verbose: Also print calls, responses and other parts.
    """
    if event.partial:
        return
    for line in _text_of(event, verbose=verbose):
        print(f"{event.author} > {line}")  # noqa: T201  # printing is its purpose


def _text_of(event: Event, *, verbose: bool) -> Iterable[str]:
    if event.text:
        yield event.text
    if event.error_code:
        yield f"[error {event.error_code}: {event.error_message}]"
    if not verbose:
        return
    for part in event.parts:
        if call := part.function_call:
            yield f"[calls {call.name}: {_short(call.args)}]"
        elif response := part.function_response:
            yield f"[{response.name} returned: {_short(response.response)}]"
        elif part.text is None:
            kinds = ", ".join(sorted(part.model_dump(exclude_none=True)))
            yield f"[{kinds}]"


def _short(value: object) -> str:
    text = json.dumps(value or {}, ensure_ascii=False, default=str)
    return text if len(text) <= MAX_VALUE else f"{text[:MAX_VALUE]}..."


def iterate(make: Callable[[], AsyncGenerator[T, None]]) -> Generator[T, None, None]:
    """Yield the items of an async generator, which runs in a thread with its own event loop.

    So this works inside a running loop too (TRAP-46). Exceptions are raised here. Closing this
    generator early closes the async one.
    """
    items: queue.Queue[T | BaseException | None] = queue.Queue(maxsize=1)
    stopped = threading.Event()

    async def pump() -> None:
        async with aclosing(make()) as values:
            async for value in values:
                await asyncio.to_thread(items.put, value)
                if stopped.is_set():
                    return

    def work() -> None:
        try:
            asyncio.run(pump())
        except BaseException as error:  # noqa: BLE001 - re-raised in the caller's thread
            items.put(error)
        else:
            items.put(None)

    thread = threading.Thread(target=work, name="durable-adk-run", daemon=True)
    thread.start()
    try:
        while (item := items.get()) is not None:
            if isinstance(item, BaseException):
                raise item
            yield item
    finally:
        stopped.set()
        while thread.is_alive():
            with suppress(queue.Empty):
                items.get(timeout=0.05)  # the thread may be putting one more item
        thread.join()
