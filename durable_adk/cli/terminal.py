"""Events on a terminal, and as lines of JSON."""

import asyncio
import json
import sys
import threading
from contextlib import suppress
from typing import Any, TextIO

from rich.console import Console
from rich.text import Text

from durable_adk.events.event import Event
from durable_adk.log import printable

_LONGEST = 300
_WIDTH = 100


def plain_console(file: TextIO | None = None) -> Console:
    """A console that leaves numbers and words as they are, and no wider than is easy to read."""
    console = Console(file=file, highlight=False)
    console.width = min(console.width, _WIDTH)
    return console


class EventPrinter:
    """Writes each event where the user reads it.

    Args:
        as_json: One line of ADK's JSON an event instead of text for people.
        file: Where to; None: standard output as it is now.
    """

    def __init__(self, *, as_json: bool = False, file: TextIO | None = None) -> None:
        self._json = as_json
        self._file = file or sys.stdout
        self._console = Console(file=self._file, highlight=False, soft_wrap=True)

    def show(self, event: Event) -> None:
        """Write an event."""
        if self._json:
            line = event.model_dump_json(by_alias=True, exclude_none=True)
            print(line, file=self._file, flush=True)
            return
        for line in lines(event):
            self._console.print(line)


def lines(event: Event) -> list[Text]:
    """What people want to see of an event, without the characters that move cursors (S24)."""
    return [Text.assemble((f"[{event.author}]: ", "bold cyan"), line) for line in gist(event)]


def gist(event: Event) -> list[Text]:
    """What an event says, calls, returns or changes."""
    shown: list[Text] = []
    if text := event.text:
        shown.append(Text(printable(text, keep="\n\t")))
    for call in event.get_function_calls():
        args = ", ".join(f"{key}={compact(value)}" for key, value in (call.args or {}).items())
        shown.append(_dim(f"calls {call.name}({args})"))
    shown += [
        _dim(f"{answer.name} returned {compact(answer.response)}")
        for answer in event.get_function_responses()
    ]
    if event.error_code:
        words = f"{event.error_code}: {event.error_message or ''}"
        shown.append(Text(printable(words), style="red"))
    if not shown and event.actions.state_delta:
        shown.append(_dim(f"changed the state: {', '.join(event.actions.state_delta)}"))
    return shown


def _dim(text: str) -> Text:
    return Text(printable(text), style="dim")


def compact(value: Any) -> str:
    """A value as JSON, cut when it is long."""
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}... ({len(text):,} characters)"


async def read_line(prompt: str) -> str | None:
    """A line from standard input, without its end; None at the end of the input.

    A thread reads it that nobody waits for: a command that is told to stop must not wait for the
    user's Enter.
    """
    loop = asyncio.get_running_loop()
    answer: asyncio.Future[str] = loop.create_future()

    def read() -> None:
        line = sys.stdin.readline()
        with suppress(RuntimeError):  # the loop has ended
            loop.call_soon_threadsafe(_resolve, answer, line)

    sys.stdout.write(prompt)
    sys.stdout.flush()
    threading.Thread(target=read, name="read-line", daemon=True).start()
    line = await answer
    return line.rstrip("\r\n") if line else None


def _resolve(answer: "asyncio.Future[str]", line: str) -> None:
    if not answer.done():
        answer.set_result(line)
