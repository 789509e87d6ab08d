"""The worker process of `dev`: its output and its records."""

import asyncio
import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any, Self, cast

from durable_adk.cli.dev.worker import LOADED, NOT_LOADED, RECORD, Serving
from durable_adk.embedded.process import Process
from durable_adk.embedded.shared import GRACE, worker_environment

Output = bytes | dict[str, Any]
"""Output of user code, or a record of the worker."""
_MARK = RECORD.encode()
_CHUNK = 65536


class WorkerProcess:
    """A process that loads the agents, reports that, and then serves them.

    Args:
        process: The process.
        read: File descriptor of its output; closed at the end of the output.
        on_output: Called with each piece of output and its time.
    """

    def __init__(
        self, process: Process, read: int, on_output: Callable[[float, Output], None]
    ) -> None:
        self._process = process
        self._on_output = on_output
        self._loaded: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        self._reading = asyncio.create_task(self._read(read))

    @classmethod
    async def start(cls, serving: Serving, on_output: Callable[[float, Output], None]) -> Self:
        """Start a process; the caller must call `stop`.

        Raises:
            DurableAdkError: It cannot be started.
        """
        read, write = os.pipe()
        # -P: modules of the current folder must not hide those of the standard library.
        command = [sys.executable, "-P", "-u", "-m", "durable_adk.cli.dev.worker"]
        try:
            process = await Process.start(
                [*command, serving.model_dump_json()],
                log=serving.data_dir / "worker.log",
                output=write,
                env={**worker_environment(serving.data_dir), "DURABLE_ADK_LOG": "json"},
                grace=GRACE,
            )
        except BaseException:
            os.close(read)
            raise
        finally:
            os.close(write)
        return cls(process, read, on_output)

    @property
    def pid(self) -> int:
        """The process id."""
        return self._process.pid

    @property
    def runs(self) -> bool:
        """Whether the process has not ended."""
        return self._process.returncode is None

    @property
    def has_loaded(self) -> bool:
        """Whether the process has loaded the agents."""
        return self._loaded.done() and self._loaded.result()["event"] == LOADED

    async def loading(self) -> dict[str, Any]:
        """Wait for record LOADED or NOT_LOADED, and return it; NOT_LOADED if the process ends."""
        ended = asyncio.ensure_future(self.wait())
        await asyncio.wait({ended, self._loaded}, return_when=asyncio.FIRST_COMPLETED)
        if not self._loaded.done():
            code = ended.result()
            self._loaded.set_result({"event": NOT_LOADED, "message": f"it ended with code {code}"})
        ended.cancel()
        return self._loaded.result()

    async def wait(self) -> int:
        """Wait until the process has ended and its output was read; return the exit code."""
        code = await self._process.wait()
        await asyncio.wait({self._reading}, timeout=1.0)  # its child processes may hold the pipe
        return code

    async def stop(self) -> None:
        """Send SIGTERM, and SIGKILL if that takes too long; read the output in the meantime."""
        await self._process.terminate()
        await self.wait()
        self._reading.cancel()

    async def _read(self, descriptor: int) -> None:
        reader = asyncio.StreamReader()
        loop = asyncio.get_running_loop()
        transport, _ = await loop.connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(descriptor, "rb", 0)
        )
        rest = b""
        try:
            while data := await reader.read(_CHUNK):
                received_at, (rest, *pieces) = time.time(), parts(rest + data)
                for one in pieces:
                    self._dispatch(received_at, one)
            if rest:
                self._dispatch(time.time(), rest)
        finally:
            transport.close()

    def _dispatch(self, at: float, output: Output) -> None:
        if not isinstance(output, dict) or output["event"] not in (LOADED, NOT_LOADED):
            self._on_output(at, output)
        elif not self._loaded.done():
            self._loaded.set_result(output)


def parts(data: bytes) -> Iterator[Any]:
    """Split output; yield first an unfinished record at its end, then the pieces before it."""
    before, *marked = data.split(_MARK)
    pieces: list[Output] = [before] if before else []
    rest = b""
    for number, piece in enumerate(marked, 1):
        line, end, after = piece.partition(b"\n")
        if not end and number == len(marked):
            rest = _MARK + piece
            break
        pieces.append(_record(line) or _MARK + line + end)
        pieces += [after] if after else []
    yield rest
    yield from pieces


def _record(line: bytes) -> dict[str, Any] | None:
    try:
        found: Any = json.loads(line)
    except ValueError:
        return None  # user code has printed the record character
    return cast("dict[str, Any]", found) if isinstance(found, dict) and "event" in found else None
