"""Events on a terminal, and as lines of JSON."""

import asyncio
import json
import sys
import termios
import threading
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager, suppress
from typing import Any, TextIO

from google.genai import types
from rich.console import Console
from rich.text import Text

from durable_adk.conversation.client_requests import REQUEST_CONFIRMATION, REQUEST_CREDENTIAL
from durable_adk.events.event import Event
from durable_adk.log import printable

_LONGEST = 300
_WIDTH = 100
_LOCAL_FLAGS = 3  # place of the flags that hold ECHO in what termios gives


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
    shown += [_dim(_calls(call)) for call in event.get_function_calls()]
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


def call_text(name: str | None, args: Mapping[str, Any] | None) -> str:
    """A call as it would be written in Python."""
    given = ", ".join(f"{key}={compact(value)}" for key, value in (args or {}).items())
    return f"{name}({given})"


def _calls(call: types.FunctionCall) -> str:
    match call.name, call.args:
        case name, {"originalFunctionCall": {"name": str(tool), **more}} if (
            name == REQUEST_CONFIRMATION
        ):
            return f"asks for approval of {call_text(tool, more.get('args'))}"
        case name, _ if name == REQUEST_CREDENTIAL:
            return "asks for a credential"
        case name, args:
            return f"calls {call_text(name, args)}"


def _dim(text: str) -> Text:
    return Text(printable(text), style="dim")


def compact(value: Any) -> str:
    """A value as JSON, cut when it is long."""
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}... ({len(text):,} characters)"


async def read_line(prompt: str) -> str | None:
    """A line from standard input, without its end; None at the end of the input."""
    line = await _read(prompt, sys.stdin.readline)
    return line.rstrip("\r\n") if line else None


async def read_secret(prompt: str) -> str:
    """A line that the terminal does not show; without a terminal all of standard input."""
    if not sys.stdin.isatty():
        return await _read("", sys.stdin.read)
    with _without_echo(sys.stdin.fileno()):
        return await _read(prompt, sys.stdin.readline)


@contextmanager
def _without_echo(terminal: int) -> Generator[None]:
    before = termios.tcgetattr(terminal)
    quiet = list(before)
    quiet[_LOCAL_FLAGS] = quiet[_LOCAL_FLAGS] & ~termios.ECHO | termios.ECHONL
    termios.tcsetattr(terminal, termios.TCSAFLUSH, quiet)
    try:
        yield
    finally:  # also when the command is told to stop while the user has not typed anything
        termios.tcsetattr(terminal, termios.TCSAFLUSH, before)


async def _read(prompt: str, source: Callable[[], str]) -> str:
    """What a blocking read gives.

    A thread reads that nobody waits for: a command that is told to stop must not wait for the
    user's Enter.
    """
    loop = asyncio.get_running_loop()
    answer: asyncio.Future[str] = loop.create_future()

    def read() -> None:
        text = source()
        with suppress(RuntimeError):  # the loop has ended
            loop.call_soon_threadsafe(_resolve, answer, text)

    sys.stdout.write(prompt)
    sys.stdout.flush()
    threading.Thread(target=read, name="read-input", daemon=True).start()
    return await answer


def _resolve(answer: "asyncio.Future[str]", line: str) -> None:
    if not answer.done():
        answer.set_result(line)
