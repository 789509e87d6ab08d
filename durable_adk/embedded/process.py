"""A child process that ends with this process, even after a SIGKILL."""

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import Generator, Mapping, Sequence
from pathlib import Path
from typing import BinaryIO, Self

from durable_adk.errors import DurableAdkError

_SUPERVISOR = Path(__file__).with_name("supervise.py")


class Process:
    """A running child process (`supervise` ties its life to this process).

    It has its own session, so Ctrl-C in our terminal does not reach it: the code that started it
    stops it. ``async with await Process.start(...)`` stops it at the end of the block.
    """

    def __init__(self, supervisor: asyncio.subprocess.Process, pid: int, log: Path) -> None:
        self._supervisor = supervisor
        self.pid = pid
        """Process id of the child, not of its supervisor."""
        self.log = log
        """File to which its standard output and standard error are appended."""

    @classmethod
    async def start(
        cls,
        command: Sequence[str | Path],
        *,
        log: Path,
        output: int | None = None,
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
        pass_fds: Sequence[int] = (),
        grace: float = 5.0,
    ) -> Self:
        """Start a command.

        Args:
            command: The program and its arguments.
            log: File for its output; created if missing.
            output: Open file descriptor for its output, in place of the log.
            env: Additional environment variables.
            cwd: Its working directory; None: ours.
            pass_fds: Open file descriptors to inherit.
            grace: Seconds between SIGTERM and SIGKILL.

        Raises:
            DurableAdkError: The program cannot be run.
        """
        with _appending(log) as appended:
            supervisor = await asyncio.create_subprocess_exec(
                # isolated and without site: a third of the start-up time, and no user code
                *(sys.executable, "-I", "-S", _SUPERVISOR, str(grace), *command),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=appended if output is None else output,
                env={**os.environ, **(env or {})},
                cwd=cwd,
                pass_fds=pass_fds,
                start_new_session=True,
            )
        if supervisor.stdout is None:
            raise AssertionError("the supervisor's output is a pipe")
        try:
            pid = await supervisor.stdout.readline()
        except BaseException:
            await _finish(supervisor)  # after a cancellation: no other code would stop it
            raise
        if not pid:
            await _finish(supervisor)
            raise DurableAdkError(f"Cannot run {command[0]}; see {log}.")
        return cls(supervisor, int(pid), log)

    @property
    def returncode(self) -> int | None:
        """The exit code (128 + n when signal n ended the process); None while it runs."""
        return self._supervisor.returncode

    async def wait(self) -> int:
        """Wait for the end of the process; return its exit code."""
        return await self._supervisor.wait()

    async def terminate(self) -> int:
        """Send SIGTERM, then SIGKILL after the grace period; return the exit code."""
        return await _finish(self._supervisor)

    async def kill(self) -> int:
        """Send SIGKILL to the process and its children; return the exit code."""
        self.send_signal(signal.SIGKILL)
        return await _finish(self._supervisor)

    def send_signal(self, number: int) -> None:
        """Send a signal, unless the process has ended: its id may have been reused."""
        if self._supervisor.stdin is not None and self.returncode is None:
            self._supervisor.stdin.write(bytes([number]))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.terminate()


@contextlib.contextmanager
def _appending(log: Path) -> Generator[BinaryIO]:
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("ab") as file:
        yield file


async def _finish(supervisor: asyncio.subprocess.Process) -> int:
    # Closing the pipe makes the supervisor stop the child, even if we are cancelled while waiting,
    # or killed.
    if supervisor.stdin is not None:
        supervisor.stdin.close()
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            await supervisor.stdin.wait_closed()
    return await supervisor.wait()
