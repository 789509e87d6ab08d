"""Records the terminal of first-hour.md: ``python -m tests.support.first_hour [FOLDER]``.

The commands are typed into a shell in a new folder, and what its terminal then shows is drawn
as docs/start/first-hour/*.svg, or in FOLDER. Nothing is edited.
"""

import os
import pty
import re
import select
import signal
import sys
import tempfile
import termios
import time
from collections.abc import Callable, Iterator
from fcntl import ioctl
from itertools import groupby
from pathlib import Path
from struct import pack

import pyte
from rich._export_format import CONSOLE_SVG_FORMAT
from rich.console import Console
from rich.style import Style
from rich.text import Text

from tests.support.required import ROOT

PAGE = ROOT / "docs" / "start" / "first-hour.md"
COLUMNS = 100
LINES = 200
"""More than a scene has: nothing scrolls away."""
PROMPT = "$ "
CHAT = "[user]: "


class Terminal:
    """A shell in a folder, and what its terminal shows."""

    def __init__(self, folder: Path) -> None:
        self._screen = pyte.Screen(COLUMNS, LINES)
        self._stream = pyte.ByteStream(self._screen)
        settings = {name: text for name, text in os.environ.items() if "_API_KEY" not in name}
        path = os.pathsep.join([str(Path(sys.executable).parent), settings["PATH"]])
        settings |= {"PATH": path, "PS1": PROMPT, "TERM": "xterm-256color", "HOME": str(folder)}
        settings |= {"TZ": "UTC", "INPUTRC": os.devnull, "PYTHONPATH": str(ROOT)}
        settings.pop("COLUMNS", None)
        self._shell, self._ours = pty.fork()
        if self._shell == 0:
            os.chdir(folder)
            os.execvpe("bash", ["bash", "--norc", "--noprofile"], settings)  # noqa: S606
        ioctl(self._ours, termios.TIOCSWINSZ, pack("HHHH", LINES, COLUMNS, 0, 0))
        self.wait(lambda text: text.endswith(PROMPT.strip()))

    def text(self) -> str:
        """What it shows."""
        return "\n".join(line.rstrip() for line in self._screen.display).rstrip()

    def wait(self, seen: Callable[[str], object], *, seconds: float = 120) -> None:
        """Wait until what it shows is so."""
        deadline = time.monotonic() + seconds
        while not seen(self.text()):
            if time.monotonic() > deadline:
                raise TimeoutError(f"waited in vain, on:\n{self.text()}")
            if select.select([self._ours], [], [], 0.1)[0]:
                self._stream.feed(os.read(self._ours, 65536))

    def type(self, line: str, then: str | Callable[[str], object] = PROMPT) -> None:
        """Type a line, and wait until there is a prompt, or what is shown after it is so."""
        before = len(self.text())
        os.write(self._ours, f"{line}\n".encode())
        ready = then if callable(then) else lambda text: text.endswith(f"\n{then.strip()}")
        self.wait(lambda text: len(text) > before + 1 and ready(text[before:]))

    def kill_job(self) -> None:
        """Kill the command that runs in the shell, as `kill -9` from another terminal does."""
        children = Path(f"/proc/{self._shell}/task/{self._shell}/children").read_text()
        (job,) = map(int, children.split())
        os.kill(job, signal.SIGKILL)
        self.wait(lambda text: text.endswith(f"\n{PROMPT.strip()}"))

    def clear(self) -> None:
        """Begin the next scene."""
        self._screen.reset()
        os.write(self._ours, b"\n")
        self.wait(lambda text: text.endswith(PROMPT.strip()))

    def close(self) -> None:
        """End the shell."""
        os.kill(self._shell, signal.SIGKILL)
        os.waitpid(self._shell, 0)
        os.close(self._ours)

    def lines(self) -> Iterator[Text]:
        """What it shows, with its colours; without the prompt at its end."""
        shown = self.text().splitlines()[:-1]
        for row in range(len(shown)):
            cells = [self._screen.buffer[row][column] for column in range(COLUMNS)]
            parts = groupby(cells, key=_style)
            line = Text.assemble(*(("".join(c.data for c in part), style) for style, part in parts))
            line.rstrip()
            yield line


def _style(cell: pyte.screens.Char) -> Style:
    colour = None if cell.fg == "default" else cell.fg.replace("brown", "yellow")
    return Style(color=colour, bold=cell.bold)


def record() -> dict[str, list[Text]]:
    """Play the page in a new folder; the lines of each picture."""
    with tempfile.TemporaryDirectory(prefix="first-hour") as place:
        folder = Path(place)
        agent = re.search(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
        assert agent is not None
        (folder / "trip").mkdir()
        (folder / "trip" / "agent.py").write_text(agent[1])
        terminal = Terminal(folder)
        try:
            return dict(_scenes(terminal))
        finally:
            terminal.close()


def _scenes(terminal: Terminal) -> Iterator[tuple[str, list[Text]]]:
    terminal.clear()
    terminal.type("durable-adk run trip", lambda text: text.endswith(CHAT.strip()))
    terminal.type("Book a trip to Oslo.", CHAT)
    terminal.type("exit")
    yield "chat", [*terminal.lines()]
    terminal.clear()
    run = 'durable-adk run trip "Book a trip to Paris." --session paris'
    terminal.type(run, lambda text: "calls book_trip" in text)
    terminal.kill_job()
    terminal.type("durable-adk show paris")
    invocation = re.findall(r"invocation (e-\S+)", terminal.text())[-1]
    terminal.type(f"durable-adk attach trip {invocation} --session paris")
    yield "kill", [*terminal.lines()]
    terminal.clear()
    terminal.type('durable-adk run trip "Cancel the trip to Paris." --session paris')
    terminal.type("durable-adk pending")
    terminal.type(re.findall(r"(durable-adk approve .+)", terminal.text())[-1])
    yield "approve", [*terminal.lines()]
    terminal.clear()
    terminal.type("durable-adk sessions")
    terminal.type("durable-adk show paris")
    yield "show", [*terminal.lines()]


def draw(name: str, lines: list[Text]) -> str:
    """The lines as SVG, which fetches no font."""
    with Path(os.devnull).open("w") as nowhere:
        console = Console(record=True, width=COLUMNS, file=nowhere)
        for line in lines:
            console.print(line, soft_wrap=True)
    style = re.sub(r"@font-face \{\{.*?\}\}\s*", "", CONSOLE_SVG_FORMAT, flags=re.DOTALL)
    return console.export_svg(title="", code_format=style, unique_id=f"first-hour-{name}")


def main() -> None:
    """Record, and draw all pictures."""
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else PAGE.with_suffix("")
    for name, lines in record().items():
        (folder / f"{name}.svg").write_text(draw(name, lines))


if __name__ == "__main__":
    main()
