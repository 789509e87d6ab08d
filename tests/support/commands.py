"""The command line as a user runs it."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

from tests.support.forked_program import forked_program
from tests.support.waiting import PATIENCE, until_true

ROOT = Path(__file__).parents[2]
EXAMPLE = str(ROOT / "examples" / "capital_agent")
TRIP = "Find the capital of France and book a trip to Paris."
MAIN = "durable_adk.cli.program:main"
IMPORTED = (
    "alembic.command",  # for a new store
    *(f"durable_adk.cli.{name}" for name in ("answer", "pending", "run", "schedule", "sessions")),
    *(f"durable_adk.cli.operations.{name}" for name in ("check", "doctor", "erase", "health")),
    "durable_adk.embedded.runner",
    "durable_adk.worker",
)
"""What most commands import."""
PROGRAM = [sys.executable, "-P", "-m", "durable_adk.cli"]


class Terminal:
    """A folder to run commands in, with the Python of an environment.

    What `start` starts is a process of its own; what `run` runs is forked from one that has
    imported the program.
    """

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
        program = forked_program(self._program[0], MAIN, *IMPORTED)
        command = [MAIN, *arguments]
        return program.run(
            command, cwd=self.folder, env=self.env | env, stdin=stdin, timeout=2 * PATIENCE
        )

    def work(self, target: str, *options: str) -> subprocess.Popen[str]:
        """Start a worker, and wait until it polls; the options have its address and task queue."""
        process = self.start("worker", target, *options)
        named = dict(zip(options[::2], options[1::2], strict=True))
        where = [word for name in ("--address", "--task-queue") for word in (name, named[name])]
        until_true(lambda: self.run("health", *where).returncode == 0)
        return process

    def stop(self, process: subprocess.Popen[str], number: int = signal.SIGINT) -> tuple[str, str]:
        """Send a signal; what the command printed."""
        process.send_signal(number)
        return process.communicate(timeout=PATIENCE)

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
            process.communicate(timeout=PATIENCE)


def ledger(folder: Path) -> list[str]:
    """What the example's tool wrote down."""
    file = folder / "trips.jsonl"
    lines = file.read_text().splitlines() if file.exists() else []
    return [json.loads(line)["what"] for line in lines]
