"""The lines that `dev` writes in between the output of the agents' code."""

import os
import sys
from collections.abc import Iterable
from typing import Any, TextIO

from rich.console import Console
from rich.text import Text

from durable_adk.auth.auth_tool import REQUEST_CREDENTIAL
from durable_adk.cli.terminal import gist, local_time
from durable_adk.conversation.client_requests import REQUEST_CONFIRMATION
from durable_adk.events.event import Event
from durable_adk.log import get_logger, logs_are_json, printable
from durable_adk.sessions.session import SessionKey

_TIME = len("12:00:00")
_SESSION = 12  # columns of a session id, which is cut
_AUTHOR = 24  # maximum columns of an author's name
_PLAIN_WIDTH = 200  # columns without a terminal
_LEAST = 40  # minimum columns of a text, even on a narrow terminal

logger = get_logger(__name__)


def logs_are_detailed() -> bool:
    """Return whether logs include debug records."""
    return os.environ.get("DURABLE_ADK_LOG_LEVEL", "").lower() == "debug"


class Lines:
    """Writes aligned lines to standard output, and passes on the output of user code.

    Args:
        quiet: Whether to omit agents' activity.
        file: Destination; None: the current standard output.
    """

    def __init__(self, *, quiet: bool = False, file: TextIO | None = None) -> None:
        self.quiet = quiet
        self._file = file or sys.stdout
        self._console = Console(file=self._file, highlight=False, soft_wrap=True)
        self._at_start = True
        self._author = len("user")

    def align(self, authors: Iterable[str]) -> None:
        """Set the column width for the names of the agents."""
        self._author = min(max(map(len, [*authors, "user"])), _AUTHOR)

    def pass_on(self, data: bytes) -> None:
        """Write user code's output unchanged."""
        self._file.flush()
        self._file.buffer.write(data)
        self._file.flush()
        self._at_start = data.endswith(b"\n")

    def event(self, key: SessionKey, event: Event, *, note: str = "") -> None:
        """Write an event: a line for its text, and for each call, response or error.

        An agent's request to its user, and the waiting of its tool, are omitted: both are written
        with the commands that answer the request.
        """
        requested = {
            *event.actions.requested_tool_confirmations,
            *event.actions.requested_auth_configs,
        }
        calls = {call.name for call in event.get_function_calls()}
        if requested or calls & {REQUEST_CONFIRMATION, REQUEST_CREDENTIAL}:
            return
        style = "bold green" if event.author == "user" else "bold cyan"
        for line in gist(event):
            self.step(key, event.author, line, at=event.timestamp, note=note, style=style)
            note = ""

    def step(
        self,
        key: SessionKey,
        author: str,
        text: Text | str,
        *,
        at: float,
        note: str = "",
        style: str = "bold cyan",
    ) -> None:
        """Write a line about a session.

        Args:
            key: The session.
            author: The agent or user; "" for the runtime.
            text: The text; cut if it exceeds the line.
            at: The time in seconds since the epoch.
            note: A note after the text.
            style: The author's style.
        """
        if self.quiet:
            return
        shown = text if isinstance(text, Text) else Text(printable(text))
        head = Text.assemble(
            (f"{local_time(at)[-_TIME:]}  ", "dim"),
            (f"{_cut(printable(key.session_id), _SESSION):{_SESSION}}  ", "dim"),
            (f"{_cut(printable(author), self._author):{self._author}}  ", style),
        )
        tail = Text(f"  {note}" if note else "", "dim")
        left = self._width() - head.cell_len - tail.cell_len
        shown = _in_one_line(shown)
        shown.truncate(max(left, _LEAST), overflow="ellipsis")
        self._write(Text.assemble(head, shown, tail))

    def notice(self, event: str, text: str, *, style: str = "yellow", **values: Any) -> None:
        """Write a notice about the processes, or log it if the logs are for programs."""
        if logs_are_json():
            log = logger.info if style == "dim" else logger.warning
            log(event, **values)
        else:
            self._write(Text(printable(text, keep="\n"), style=style))

    def log(self, line: str) -> None:
        """Write a line of the logs, to standard error."""
        sys.stderr.write(f"{line}\n")
        sys.stderr.flush()

    def rows(self, rows: Iterable[tuple[str, str]]) -> None:
        """Write labels and texts below a line; texts are not cut, so that they can be copied."""
        indent = " " * (_TIME + _SESSION + self._author + 6)
        for label, text in rows if not self.quiet else ():
            self._write(Text.assemble((f"{indent}{label:8}", "dim"), printable(text)))

    def _width(self) -> int:
        return self._console.width if self._console.is_terminal else _PLAIN_WIDTH

    def _write(self, line: Text) -> None:
        if not self._at_start:
            self._file.write("\n")  # user code's last line is unfinished
        self._console.print(line)
        self._file.flush()
        self._at_start = True


def _in_one_line(text: Text) -> Text:
    return Text(" ").join(line for line in text.split() if line.plain.strip())


def _cut(text: str, length: int) -> str:
    return text if len(text) <= length else f"{text[: length - 1]}…"
