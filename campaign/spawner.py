"""Starts workers, clients and the model as forks of a process that has imported everything.

Starting Python and importing the SDKs costs 2.7 s of processor time, a fork some milliseconds: that
is the difference between one fault in five seconds and one a second. What is forked is a process
like any other, with its own connections and threads, and is killed like any other.

    python -m campaign.spawner SOCKET

On the socket each connection is one process: a line of JSON says what to run; its process id comes
back, and its exit code when it has ended. A process whose connection is closed is killed.
"""

import asyncio
import contextlib
import ctypes
import json
import os
import selectors
import signal
import socket
import sys
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, Self

from campaign import client_main, model_stub, worker_main

PROGRAMS: dict[str, Callable[[list[str]], None]] = {
    "client": client_main.start,
    "model": model_stub.start,
    "worker": worker_main.start,
}
GRACE = 3.0
"""Seconds between SIGTERM and SIGKILL."""
_DIE_WITH_PARENT = 1  # PR_SET_PDEATHSIG


class _Child(NamedTuple):
    pid: int
    handle: int
    """Readable when it has ended."""
    connection: socket.socket


class Spawner:
    """The process that forks; it has one thread, and no connection to anybody but us."""

    def __init__(self, listener: socket.socket) -> None:
        self._listener = listener
        self._selector = selectors.DefaultSelector()

    def serve(self) -> None:
        """Fork what is asked for, until a signal ends us."""
        self._selector.register(self._listener, selectors.EVENT_READ, None)
        while True:
            for key, _ in self._selector.select():
                child: _Child | None = key.data
                if child is None:
                    self._fork()
                elif key.fd == child.handle:
                    self._reap(child)
                elif child.connection.fileno() >= 0:  # it was not reaped just now
                    self._selector.unregister(child.connection)  # its owner is gone
                    os.kill(child.pid, signal.SIGKILL)

    def _fork(self) -> None:
        connection, _ = self._listener.accept()
        order = json.loads(connection.makefile().readline())
        pid = os.fork()
        if pid == 0:
            _become(order["program"], order["arguments"], order["log"])
        child = _Child(pid, os.pidfd_open(pid), connection)
        self._selector.register(child.handle, selectors.EVENT_READ, child)
        self._selector.register(connection, selectors.EVENT_READ, child)
        connection.sendall(f"{pid}\n".encode())

    def _reap(self, child: _Child) -> None:
        _, status = os.waitpid(child.pid, 0)
        self._selector.unregister(child.handle)
        os.close(child.handle)
        with contextlib.suppress(KeyError):
            self._selector.unregister(child.connection)
        with contextlib.suppress(OSError):
            child.connection.sendall(f"{os.waitstatus_to_exitcode(status)}\n".encode())
        child.connection.close()


def _become(program: str, arguments: list[str], log: str) -> None:
    """Run a program in the forked process; does not return."""
    code = 1
    try:
        ctypes.CDLL(None).prctl(_DIE_WITH_PARENT, signal.SIGKILL)
        output = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        os.dup2(output, 1)
        os.dup2(output, 2)
        os.closerange(3, os.sysconf("SC_OPEN_MAX") if output < 3 else 1024)
        PROGRAMS[program](arguments)
        code = 0
    except BaseException:  # noqa: BLE001 - it is printed, and the process ends with it
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        os._exit(code)


@dataclass(eq=False)
class Spawned:
    """A process that the spawner has forked."""

    pid: int
    _exit: "asyncio.Task[int]"
    _writer: asyncio.StreamWriter

    @classmethod
    async def start(cls, path: Path, program: str, arguments: list[str], log: Path) -> Self:
        """Have it forked by the spawner behind `path`."""
        reader, writer = await asyncio.open_unix_connection(path)
        order = {"program": program, "arguments": arguments, "log": str(log)}
        writer.write(f"{json.dumps(order)}\n".encode())
        pid = int(await reader.readline())
        return cls(pid, asyncio.create_task(_code(reader, writer)), writer)

    @property
    def returncode(self) -> int | None:
        """Its exit code, negative for a signal; None while it runs."""
        return self._exit.result() if self._exit.done() else None

    async def wait(self) -> int:
        """Its exit code, once it has ended."""
        return await asyncio.shield(self._exit)

    def send_signal(self, number: signal.Signals) -> None:
        """Send it a signal, unless it has ended."""
        if not self._exit.done():
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)

    async def terminate(self) -> None:
        """SIGTERM, then SIGKILL."""
        self.send_signal(signal.SIGTERM)
        try:
            async with asyncio.timeout(GRACE):
                await self.wait()
        except TimeoutError:
            self.send_signal(signal.SIGKILL)
            await self.wait()


async def _code(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> int:
    line = await reader.readline()
    writer.close()
    return int(line) if line else -signal.SIGKILL


def main() -> None:
    """Serve on the socket that the command line names."""
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(f"{sys.argv[1]}.new")
        listener.listen()
        Path(f"{sys.argv[1]}.new").rename(sys.argv[1])  # a client that finds it can connect
        Spawner(listener).serve()


if __name__ == "__main__":
    main()
