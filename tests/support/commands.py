"""The command line as a user runs it: in processes of its own."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).parents[2]
EXAMPLE = str(ROOT / "examples" / "capital_agent")
TRIP = "Find the capital of France and book a trip to Paris."
PROGRAM = [sys.executable, "-P", "-m", "durable_adk.cli"]


class Terminal:
    """A folder to run commands in, with the Python of an environment."""

    def __init__(self, folder: Path, python: Path | None = None) -> None:
        self.folder = folder
        self._program = [str(python or PROGRAM[0]), *PROGRAM[1:]]
        self.env = {name: text for name, text in os.environ.items() if "_API_KEY" not in name}
        self.env |= {"PYTHONPATH": str(ROOT), "DURABLE_ADK_DEMO_SECONDS": "0", "COLUMNS": "100"}
        self._running: list[subprocess.Popen[str]] = []

    def start(self, *arguments: str, **env: str) -> subprocess.Popen[str]:
        """Start a command; its output is in pipes."""
        process = subprocess.Popen(
            [*self._program, *arguments],
            cwd=self.folder,
            env=self.env | env,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self._running.append(process)
        return process

    def run(self, *arguments: str, stdin: str = "", **env: str) -> subprocess.CompletedProcess[str]:
        """Run a command to its end."""
        process = self.start(*arguments, **env)
        stdout, stderr = process.communicate(stdin, timeout=100)
        return subprocess.CompletedProcess(process.args, process.returncode, stdout, stderr)

    def stop(self, process: subprocess.Popen[str], number: int = signal.SIGINT) -> tuple[str, str]:
        """Send a signal; what the command printed."""
        process.send_signal(number)
        return process.communicate(timeout=30)

    def processes(self, words: str = "") -> list[int]:
        """Ids of the processes whose command line names this folder, and these words."""
        found: list[int] = []
        for entry in Path("/proc").glob("[0-9]*/cmdline"):
            try:
                line = entry.read_bytes().replace(b"\0", b" ").decode(errors="replace")
            except OSError:
                continue  # it has ended meanwhile
            if str(self.folder) in line and words in line and "supervise" not in line:
                found.append(int(entry.parent.name))
        return found

    def close(self) -> None:
        """End what a failed test left."""
        for process in self._running:
            if process.poll() is None:
                process.kill()
            process.communicate(timeout=10)


def ledger(folder: Path) -> list[str]:
    """What the example's tool wrote down."""
    file = folder / "trips.jsonl"
    lines = file.read_text().splitlines() if file.exists() else []
    return [json.loads(line)["what"] for line in lines]


def until(condition: Callable[[], object], *, seconds: float = 60.0) -> None:
    """Wait until something is so."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.05)
