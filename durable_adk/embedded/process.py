"""A child process that ends when we end, however we end."""

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
    """A running child process (see `supervise` for how its life is tied to ours).

    It has its own session, so Ctrl-C in our terminal does not reach it: whoever started it says
    when it stops. ``async with await Process.start(...)`` stops it at the end of the block.
    """

    def __init__(self, supervisor: asyncio.subprocess.Process, pid: int, log: Path) -> None:
        self._supervisor = supervisor
        self.pid = pid
        """Process id of the child itself."""
        self.log = log
        """File that its standard output and standard error are appended to."""

    @classmethod
    async def start(
        cls,
        command: Sequence[str | Path],
        *,
        log: Path,
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
        pass_fds: Sequence[int] = (),
        grace: float = 5.0,
    ) -> Self:
        """Start a command.

        Args:
            command: The program and its arguments.
            log: File for its output; made if missing.
            env: Variables on top of ours.
            cwd: Where it runs; None: where we do.
            pass_fds: Open descriptors that become its own as well.
            grace: Seconds between SIGTERM and SIGKILL when it is to end.

        Raises:
            DurableAdkError: The program cannot be run.
        """
        with _appending(log) as output:
            supervisor = await asyncio.create_subprocess_exec(
                # isolated, without site: a third of the start-up time, and nothing of the user's
                *(sys.executable, "-I", "-S", _SUPERVISOR, str(grace), *command),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=output,
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
            await _finish(supervisor)  # cancelled: nobody would ever stop it
            raise
        if not pid:
            await _finish(supervisor)
            raise DurableAdkError(f"Cannot run {command[0]}; {log} says why.")
        return cls(supervisor, int(pid), log)

    @property
    def returncode(self) -> int | None:
        """Its exit code (128 + n when signal n ended it); None while it runs."""
        return self._supervisor.returncode

    async def wait(self) -> int:
        """Its exit code, once it has ended."""
        return await self._supervisor.wait()

    async def terminate(self) -> int:
        """SIGTERM, then SIGKILL when the grace is over; its exit code."""
        return await _finish(self._supervisor)

    async def kill(self) -> int:
        """SIGKILL for it and all it started; its exit code."""
        self.send_signal(signal.SIGKILL)
        return await _finish(self._supervisor)

    def send_signal(self, number: int) -> None:
        """Send it a signal, unless it has ended (then its id may be somebody else's by now)."""
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
    # Letting go of the pipe is the whole order to end: if we are cancelled in the wait, or killed,
    # the supervisor carries it out all the same.
    if supervisor.stdin is not None:
        supervisor.stdin.close()
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            await supervisor.stdin.wait_closed()
    return await supervisor.wait()
