"""Events on a terminal or as lines of JSON, and input from the user."""

import asyncio
import json
import sys
import termios
import threading
from collections.abc import (
    AsyncGenerator,
    AsyncIterable,
    Callable,
    Generator,
    Iterable,
    Mapping,
    Sequence,
)
from contextlib import contextmanager, nullcontext, suppress
from datetime import UTC, datetime
from functools import partial
from typing import Any, TextIO

from google.genai import types
from rich.console import Console, ConsoleDimensions, ConsoleOptions
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from durable_adk.auth.auth_tool import REQUEST_CREDENTIAL
from durable_adk.conversation.client_requests import REQUEST_CONFIRMATION
from durable_adk.errors.user_error import text_of
from durable_adk.events.event import ANSWERED_BY, MISSING_TOOLSETS, Event
from durable_adk.events.request_input import REQUEST_INPUT
from durable_adk.log import printable
from durable_adk.partials import LiveText

with suppress(ImportError):  # Python may have been built without it
    # `input` then edits lines, and recalls those of this chat.
    import readline  # noqa: F401  # pyright: ignore[reportUnusedImport]: changes `input`

_LONGEST = 300
_LABEL = 10  # columns of a label
_ENDLESS = ConsoleOptions(
    size=ConsoleDimensions(100_000, 25),
    legacy_windows=False,
    min_width=1,
    max_width=100_000,
    is_terminal=False,
    encoding="utf-8",
    max_height=25,
)
_WIDTH = 100
_LOCAL_FLAGS = 3  # index of the flags that contain ECHO, in the list of termios


def plain_console() -> Console:
    """Return a console without highlighting, of a readable width."""
    console = Console(highlight=False)
    console.width = min(console.width, _WIDTH)
    return console


def print_table(
    headers: Sequence[str], rows: Iterable[Sequence[str]], *, sentences: int = 0
) -> None:
    """Write a table to standard output; ids are never cut, even on a narrow terminal.

    Args:
        headers: The column headers.
        rows: The cells.
        sentences: Number of last columns that are wrapped on a terminal.
    """
    table = Table(box=None, pad_edge=False, header_style="bold")
    for index, header in enumerate(headers):
        table.add_column(header.upper(), no_wrap=index < len(headers) - sentences)
    for row in rows:
        table.add_row(*(Text(printable(cell)) for cell in row))
    console = Console(highlight=False)
    narrow, wide = Measurement.get(console, _ENDLESS, table)
    console.width = max(console.width, narrow if sentences and console.is_terminal else wide)
    console.print(table, crop=False)


def print_heading(text: str, *, style: str = "bold", file: TextIO | None = None) -> None:
    """Write a heading."""
    console = Console(file=file, highlight=False, soft_wrap=True)
    console.print(Text(printable(text, keep="\n"), style=style))


def print_rows(rows: Iterable[tuple[str, str]], *, file: TextIO | None = None) -> None:
    """Write labels and texts below a heading; rows without text are omitted."""
    console = Console(file=file, highlight=False, soft_wrap=True)
    for label, text in rows:
        if text:
            console.print(Text.assemble((f"  {label:{_LABEL}}", "dim"), printable(text)))


def local_time(seconds: float) -> str:
    """Return a time since the epoch in the user's time zone."""
    return f"{datetime.fromtimestamp(seconds, tz=UTC).astimezone():%Y-%m-%d %H:%M:%S}"


def counted(number: int, what: str) -> str:
    """Return a number of things in words."""
    return f"1 {what}" if number == 1 else f"{number} {what}s"


class EventPrinter:
    """Writes events to the terminal.

    Args:
        as_json: Whether to write each event as one line of ADK's JSON.
        timed: Whether to begin each line with the time of day.
        file: Destination; None: the current standard output.
    """

    def __init__(
        self, *, as_json: bool = False, timed: bool = False, file: TextIO | None = None
    ) -> None:
        self._json = as_json
        self._timed = timed
        self._file = file or sys.stdout
        self._console = Console(file=self._file, highlight=False, soft_wrap=True)

    def show(self, event: Event) -> None:
        """Write an event."""
        if self._json:
            line = event.model_dump_json(by_alias=True, exclude_none=True)
            print(line, file=self._file, flush=True)
            return
        at = f"  {local_time(event.timestamp)[-8:]}  " if self._timed else ""
        for line in lines(event):
            self._console.print(Text.assemble((at, "dim"), line))


async def without_raised(events: AsyncIterable[Event]) -> AsyncGenerator[Event]:
    """Omit the event that only reports the error that `events` then raises.

    The caller reports the error in more detail.
    """
    failure: Event | None = None
    try:
        async for event in events:
            if failure is not None:
                yield failure
            failure = event if event.error_message and not event.text else None
            if failure is None:
                yield event
    except Exception as error:
        if failure is not None and (failure.error_message or "") not in text_of(error):
            yield failure
        raise
    if failure is not None:
        yield failure


class LivePrinter(EventPrinter):
    """Also writes partial events: a text grows on its line until its event is committed.

    One text grows at a time; events of other branches are shown when it is complete.
    """

    def __init__(self, *, as_json: bool = False, file: TextIO | None = None) -> None:
        super().__init__(as_json=as_json, file=file)
        self._live = LiveText()
        self._written: str | None = None
        """The text on the unfinished line; None if no line is unfinished."""
        self._branch: str | None = None
        """The branch of that line's agent."""
        self._skipped: set[str] = set()
        self._held: list[Event] = []

    def show(self, event: Event) -> None:
        """Write an event, or the text that a partial event adds."""
        if self._json:
            super().show(event)
        elif not event.partial:
            self._finish(event)
        elif self._written is not None and event.id != self._live.event_id:
            self._skipped.add(event.id)
        elif event.id not in self._skipped:
            self._grow(event, self._live.feed(event))

    def _grow(self, event: Event, text: str) -> None:
        if self._written is not None and not text.startswith(self._written):
            self._end_line()  # the model call was retried (TRAP-6)
        if text and self._written is None:
            self._written, self._branch = "", event.branch
            self._put(Text(f"[{event.author}]: ", "bold cyan"))
        if self._written is not None:
            self._put(Text(printable(text[len(self._written) :], keep="\n\t")))
            self._written = text

    def _finish(self, event: Event) -> None:
        ends = event.id == self._live.event_id
        if self._written is not None and not ends and self._in_other_branch(event):
            self._held.append(event)
            return
        self._write(event)
        held, self._held = self._held, []
        for other in held:
            self._write(other)

    def _in_other_branch(self, event: Event) -> bool:
        """Return whether the event is from a branch that runs in parallel to the growing text."""
        return None not in (event.branch, self._branch) and event.branch != self._branch

    def _write(self, event: Event) -> None:
        rest = lines(event)
        if self._written is not None and event.id == self._live.event_id:
            self._grow(event, event.text)  # chunks may be lost, callbacks may change the text
            rest = rest[1:] if event.text else rest
        if self._written is not None:
            self._end_line()
        self._live.feed(event)
        for line in rest:
            self._console.print(line)

    def _put(self, text: Text) -> None:
        self._console.print(text, end="")
        self._file.flush()

    def _end_line(self) -> None:
        self._put(Text("\n"))
        self._written = None


def lines(event: Event) -> list[Text]:
    """Return an event as text without control characters, which would move the cursor (S24)."""
    return [Text.assemble((f"[{event.author}]: ", "bold cyan"), line) for line in gist(event)]


def gist(event: Event) -> list[Text]:
    """Return the text, calls, responses, error or state changes of an event."""
    shown: list[Text] = []
    if text := event.text:
        shown.append(Text(printable(text, keep="\n\t")))
    node = _node(event)
    calls = event.get_function_calls()
    shown += [_dim(f"{node} {_calls(call)}" if node else _calls(call)) for call in calls]
    shown += [_dim(_returned(event, answer)) for answer in event.get_function_responses()]
    if by := (event.custom_metadata or {}).get(ANSWERED_BY):
        shown.append(_dim(f"answered by {_sender_of(by)}"))
    if event.error_code:
        words = f"{event.error_code}: {event.error_message or ''}"
        shown.append(Text(printable(words), style="red"))
    if missing := (event.custom_metadata or {}).get(MISSING_TOOLSETS):
        names = ", ".join(map(str, missing))
        shown.append(_dim(f"had no tools of {names}: start its server, or correct its address"))
    if event.output is not None and not (text or event.node_info.message_as_output):
        output = compact(event.output)
        shown.append(Text(printable(f"{node}: {output}" if node else output)))
    if not shown and event.actions.state_delta:
        shown.append(_dim(f"changed the state: {', '.join(event.actions.state_delta)}"))
    return shown


def _node(event: Event) -> str:
    """Return the node that an output or a question is from, unless the author has its name."""
    info = event.node_info
    return info.name if info.path and info.name != event.author else ""


def _returned(event: Event, answer: types.FunctionResponse) -> str:
    """Return a tool's result, or what it waits for: then its response is for the model only."""
    if answer.id in event.actions.requested_tool_confirmations:
        return f"{answer.name} waits for approval"
    if answer.id in event.actions.requested_auth_configs:
        return f"{answer.name} waits for a credential"
    if answer.name == REQUEST_CONFIRMATION and isinstance(answer.response, dict):
        return "approves the call" if answer.response.get("confirmed") else "rejects the call"
    return f"{answer.name} returned {compact(answer.response)}"


def _sender_of(answered_by: Any) -> str:
    """Return the sender of an answer, from the metadata of its event."""
    match answered_by:
        case {"user": str(user)}:
            return printable(user)
        case _:
            return "its URL"


def call_text(name: str | None, args: Mapping[str, Any] | None) -> str:
    """Return a call in Python's syntax."""
    arguments = ", ".join(f"{key}={compact(value)}" for key, value in (args or {}).items())
    return f"{name}({arguments})"


def _calls(call: types.FunctionCall) -> str:
    match call.name, call.args:
        case name, {"originalFunctionCall": {"name": str(tool), **more}} if (
            name == REQUEST_CONFIRMATION
        ):
            return f"requests approval of {call_text(tool, more.get('args'))}"
        case name, _ if name == REQUEST_CREDENTIAL:
            return "requests a credential"
        case name, args if name == REQUEST_INPUT:
            return f"asks: {(args or {}).get('message') or 'for an answer'}"
        case name, args:
            return f"calls {call_text(name, args)}"


def _dim(text: str) -> Text:
    return Text(printable(text), style="dim")


def compact(value: Any) -> str:
    """Return a value as JSON, cut if it is long."""
    return shortened(json.dumps(value, ensure_ascii=False, default=str), _LONGEST)


def shortened(text: str, length: int) -> str:
    """Return a text, cut if it is long."""
    return text if len(text) <= length else f"{text[:length]}... ({len(text):,} characters)"


async def read_line(prompt: str) -> str | None:
    """Read a line from standard input, without its end; None at the end of the input.

    On a terminal the line can be edited; restore the terminal afterwards, see `restored_terminal`.
    """
    if is_interactive():
        line = await _read("", partial(_edited, prompt))
    else:
        line = await _read(prompt, sys.stdin.readline)
    return line.rstrip("\r\n") if line else None


def is_interactive() -> bool:
    """Return whether a person types at a terminal and reads on it."""
    return sys.stdin.isatty() and sys.stdout.isatty()


def _edited(prompt: str) -> str:
    try:
        return f"{input(prompt)}\n"
    except EOFError:
        sys.stdout.write("\n")
        return ""


@contextmanager
def busy(text: str) -> Generator[None]:
    """Show on a terminal what the body does, until it is done."""
    console = Console(stderr=True)
    with console.status(Text(text, "dim")) if console.is_terminal else nullcontext():
        yield


async def read_secret(prompt: str) -> str:
    """Read a line without echo; without a terminal, read all of standard input."""
    if not sys.stdin.isatty():
        return await _read("", sys.stdin.read)
    with restored_terminal() as flags:
        quiet = list(flags)
        quiet[_LOCAL_FLAGS] = quiet[_LOCAL_FLAGS] & ~termios.ECHO | termios.ECHONL
        termios.tcsetattr(sys.stdin.fileno(), termios.TCSAFLUSH, quiet)
        return await _read(prompt, sys.stdin.readline)


@contextmanager
def restored_terminal() -> Generator[list[Any]]:
    """Restore the terminal at the end, even if a signal stops the body while the user is typing.

    Yields:
        The flags that will be restored.
    """
    terminal = sys.stdin.fileno()
    before = termios.tcgetattr(terminal)
    try:
        yield before
    finally:
        termios.tcsetattr(terminal, termios.TCSAFLUSH, before)


async def _read(prompt: str, source: Callable[[], str]) -> str:
    """Read in a thread.

    The thread is a daemon, so that a command stopped by a signal does not wait for the user's
    Enter.
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
