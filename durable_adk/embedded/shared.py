"""One server for all processes that use a data folder, and its worker processes."""

import asyncio
import os
import sys
from collections.abc import AsyncGenerator, Coroutine, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from types import MappingProxyType
from typing import BinaryIO

from temporalio.client import Client

from durable_adk.client.connect import KEEP_ALIVE, converter_of, reason_of
from durable_adk.embedded.process import Process
from durable_adk.embedded.server import START_TIMEOUT, ServerInfo, TemporalServer
from durable_adk.errors import AlreadyExistsError, TemporalUnavailableError
from durable_adk.log import get_logger
from durable_adk.settings import Settings
from durable_adk.storage.files import open_lock, try_lock
from durable_adk.storage.location import resolved

NAMESPACE = "default"
GRACE = 15.0
"""Seconds between SIGTERM and SIGKILL of a worker process; its graceful shutdown takes less
time."""

ENVIRONMENT = MappingProxyType(
    {
        "TEMPORAL_NAMESPACE": NAMESPACE,
        "TEMPORAL_TLS": "false",
        "TEMPORAL_API_KEY": "",
        "TEMPORAL_PROFILE": "",
        "TEMPORAL_CONFIG_FILE": os.devnull,
        "DURABLE_ADK_BUILD_ID": "",
        "DURABLE_ADK_DEPLOYMENT": "",
        "DURABLE_ADK_AUTO_UPGRADE": "false",
    }
)
"""Environment of child processes that connect to the embedded server. It replaces the user's
Temporal profile and deployment: messages would wait for a deployment that is never made current."""

_POLL = 0.05
_LOG_AFTER = 1.0  # seconds of waiting for other processes until it is logged

logger = get_logger(__name__)


def prepare_data_dir(data_dir: Path) -> Path:
    """Create the folder if it is missing, ignored by git; return its absolute path."""
    data_dir = data_dir.expanduser().absolute()
    data_dir.mkdir(parents=True, exist_ok=True)
    ignore = data_dir / ".gitignore"
    if not ignore.exists():
        ignore.write_text("*\n")
    return data_dir


def payload_storage(data_dir: Path) -> Path | str:
    """Return the storage of large payloads for all users of the data folder's server."""
    return resolved(Settings().payloads or data_dir / "payloads")


async def connect_embedded(address: str, payloads: Path | str | None = None) -> Client:
    """Connect to an embedded server, ignoring the environment's Temporal configuration.

    Args:
        address: The server's address.
        payloads: The storage of large payloads; None: the server's own file.

    Raises:
        TemporalUnavailableError: The server does not respond.
        InvalidRequestError: The key file cannot be used.
    """
    settings = Settings().model_copy(update={"payloads": payloads})
    converter = await asyncio.to_thread(converter_of, settings)
    try:
        return await Client.connect(
            address,
            namespace=NAMESPACE,
            data_converter=converter,
            keep_alive_config=KEEP_ALIVE,
        )
    except RuntimeError as error:  # raised by the SDK if the first connection fails
        raise TemporalUnavailableError(
            f"Temporal does not answer at {address}: {reason_of(error)}"
        ) from error


@asynccontextmanager
async def embedded_client(data_dir: Path) -> AsyncGenerator[Client]:
    """Yield a client of a data folder's server, which runs while the context is open.

    Raises:
        TemporalUnavailableError: The server cannot be started, or does not respond.
    """
    async with shared_server(data_dir) as server:
        yield await connect_embedded(server.address, payload_storage(data_dir))


@asynccontextmanager
async def shared_server(data_dir: Path) -> AsyncGenerator[ServerInfo]:
    """Yield the server of a data folder: the running one, or a new one.

    A new server is stopped at the end, once no other process uses it; a cancellation does not wait
    for other processes.

    Args:
        data_dir: As `prepare_data_dir` returns it.

    Raises:
        TemporalUnavailableError: The server cannot be started.
    """
    async with AsyncExitStack() as stack:
        users = stack.enter_context(_users(data_dir))
        # Wait while the last user stops the server, to avoid using one that is stopping.
        await _lock(users, shared=True)
        found = await TemporalServer.find(data_dir)
        if found is None:
            alone = stack.enter_context(_users(data_dir))  # closed after the server has ended
            try:
                server = await stack.enter_async_context(TemporalServer.start(data_dir=data_dir))
            except AlreadyExistsError:
                found = await _started_by_another(data_dir)
            else:
                try:
                    yield server.info
                finally:
                    users.close()
                    await _unless_cancelled(_lock(alone, shared=False))
                return
        yield found


def _users(data_dir: Path) -> BinaryIO:
    return open_lock(data_dir / "users.lock")


async def _lock(file: BinaryIO, *, shared: bool) -> None:
    waited = 0.0
    while not try_lock(file, shared=shared):
        await asyncio.sleep(_POLL)
        waited += _POLL
        if _LOG_AFTER <= waited < _LOG_AFTER + _POLL:
            logger.warning("server.in_use", hint="another process uses our server; waiting for it")


async def _unless_cancelled(wait: Coroutine[None, None, None]) -> None:
    task = asyncio.current_task()
    if task is not None and task.cancelling():
        wait.close()
    else:
        await wait


async def _started_by_another(data_dir: Path) -> ServerInfo:
    for _ in range(round(START_TIMEOUT / _POLL)):
        if info := await TemporalServer.find(data_dir):
            return info
        await asyncio.sleep(_POLL)
    raise TemporalUnavailableError(f"The Temporal server of {data_dir} does not answer.")


async def start_worker_process(
    target: str,
    *,
    address: str,
    store: str,
    task_queue: str,
    data_dir: Path,
    log: Path,
    env: Mapping[str, str] | None = None,
) -> Process:
    """Start ``durable-adk worker`` for the embedded server; it ends with this process.

    Args:
        target: The folder, file or module of the app.
        address: The embedded server's address.
        store: The session store, a URL or an absolute path.
        task_queue: Its task queue.
        data_dir: Folder of artifacts, memory and credentials.
        log: File for its output.
        env: Additional environment variables.
    """
    # -P: modules of the current folder must not hide those of the standard library.
    command = [sys.executable, "-P", "-m", "durable_adk.cli", "worker", target]
    command += ["--address", address, "--store", store, "--task-queue", task_queue]
    command += ["--data-dir", str(data_dir)]
    base = worker_environment(data_dir)
    return await Process.start(command, log=log, env={**base, **(env or {})}, grace=GRACE)


def worker_environment(data_dir: Path) -> dict[str, str]:
    """Environment variables of worker processes that serve a data folder's server."""
    return {**ENVIRONMENT, "DURABLE_ADK_PAYLOADS": str(payload_storage(data_dir))}
