"""One server for all processes that use a data folder."""

import asyncio
import os
from collections.abc import AsyncGenerator, Coroutine
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from types import MappingProxyType
from typing import BinaryIO

from temporalio.client import Client

from durable_adk.client.connect import KEEP_ALIVE, converter_of
from durable_adk.embedded.locks import open_lock, try_lock
from durable_adk.embedded.server import START_TIMEOUT, ServerInfo, TemporalServer
from durable_adk.errors import AlreadyExistsError, TemporalUnavailableError
from durable_adk.log import get_logger
from durable_adk.settings import Settings
from durable_adk.storage.object_store import place

NAMESPACE = "default"

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
"""For child processes that connect to it: the user's Temporal profile and deployment are about
another server; here messages would wait for a deployment that nobody has made current."""

_POLL = 0.05
_PATIENCE = 1.0  # seconds before we say what we wait for

logger = get_logger(__name__)


def prepare_data_dir(data_dir: Path) -> Path:
    """The folder as an absolute path, made if missing, and kept out of git."""
    data_dir = data_dir.expanduser().absolute()
    data_dir.mkdir(parents=True, exist_ok=True)
    ignore = data_dir / ".gitignore"
    if not ignore.exists():
        ignore.write_text("*\n")
    return data_dir


def payloads_place(data_dir: Path) -> Path | str:
    """Where all who use the data folder's server keep large payloads."""
    return place(Settings().payloads or data_dir / "payloads")


async def connect_embedded(address: str, payloads: Path | str | None = None) -> Client:
    """A client of an embedded server, whatever the environment says of other servers.

    Args:
        address: The server's.
        payloads: Where the large payloads are; None: all of them are in the server's file.

    Raises:
        TemporalUnavailableError: The server does not answer.
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
    except RuntimeError as error:  # what the SDK raises when the first connection fails
        raise TemporalUnavailableError(f"Temporal does not answer at {address}: {error}") from error


@asynccontextmanager
async def embedded_client(data_dir: Path) -> AsyncGenerator[Client]:
    """A client of a data folder's server, which runs meanwhile; see `shared_server`.

    Raises:
        TemporalUnavailableError: The server cannot be started, or does not answer.
    """
    async with shared_server(data_dir) as server:
        yield await connect_embedded(server.address, payloads_place(data_dir))


@asynccontextmanager
async def shared_server(data_dir: Path) -> AsyncGenerator[ServerInfo]:
    """The server of a data folder: the one that runs there, or one that we start.

    If we started it we stop it, but not before everybody else has left such a block; a
    cancellation does not wait for them.

    Args:
        data_dir: As `prepare_data_dir` returns it.

    Raises:
        TemporalUnavailableError: The server cannot be started.
    """
    async with AsyncExitStack() as stack:
        users = stack.enter_context(_users(data_dir))
        # Waits while the last user stops the server, so nobody finds one that is half gone.
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
        if _PATIENCE <= waited < _PATIENCE + _POLL:
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
    raise TemporalUnavailableError(f"The Temporal server on {data_dir} does not answer.")
