"""Events on a terminal, with the text of each answer as it is written."""

from typing import TextIO

from rich.text import Text

from durable_adk.cli.terminal import EventPrinter, lines
from durable_adk.events.event import Event
from durable_adk.log import printable
from durable_adk.partials import LiveText


class LivePrinter(EventPrinter):
    """Writes chunks as well: a text grows on its line until its event is there.

    One text at a time: what agents of other branches do meanwhile is shown when it has ended.
    """

    def __init__(self, *, as_json: bool = False, file: TextIO | None = None) -> None:
        super().__init__(as_json=as_json, file=file)
        self._live = LiveText()
        self._written: str | None = None
        """What stands on the open line; None: there is none."""
        self._branch: str | None = None
        """The branch of the open line's agent."""
        self._skipped: set[str] = set()
        self._held: list[Event] = []

    def show(self, event: Event) -> None:
        """Write an event, or what a chunk adds."""
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
            self._end_line()  # the model was asked again (TRAP-6)
        if text and self._written is None:
            self._written, self._branch = "", event.branch
            self._put(Text(f"[{event.author}]: ", "bold cyan"))
        if self._written is not None:
            self._put(Text(printable(text[len(self._written) :], keep="\n\t")))
            self._written = text

    def _finish(self, event: Event) -> None:
        ends = event.id == self._live.event_id
        if self._written is not None and not ends and self._beside(event):
            self._held.append(event)
            return
        self._write(event)
        held, self._held = self._held, []
        for other in held:
            self._write(other)

    def _beside(self, event: Event) -> bool:
        """Whether it is of an agent that works beside the one whose text is growing."""
        return None not in (event.branch, self._branch) and event.branch != self._branch

    def _write(self, event: Event) -> None:
        rest = lines(event)
        if self._written is not None and event.id == self._live.event_id:
            self._grow(event, event.text)  # what was lost on the way, or changed since
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
