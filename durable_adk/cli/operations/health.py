"""``durable-adk health``: check the store, Temporal and the workers."""

import asyncio
import socket
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager

from rich.console import Console
from rich.text import Text
from temporalio.api.workflowservice.v1 import DescribeNamespaceRequest
from temporalio.client import Client
from temporalio.service import RPCError

from durable_adk.cli.connection import without_password
from durable_adk.cli.execution import FAILED
from durable_adk.cli.server import ServerConnection
from durable_adk.client.invocations import wrong_version
from durable_adk.errors import (
    DurableAdkError,
    InvalidRequestError,
    StoreUnavailableError,
    TemporalUnavailableError,
    TransientError,
    WorkerStuckError,
)
from durable_adk.log import printable
from durable_adk.task_queues import described
from durable_adk.worker_status import is_alive, stuck_reason

CHECK_TIMEOUT = 5.0
"""Seconds for each check of `health`."""


async def health(connection: ServerConnection, *, here: bool) -> int:
    """Check that session store and Temporal respond, and that a worker polls the task queue."""
    return 0 if await _check(connection, here=here) else FAILED


async def _check(connection: ServerConnection, *, here: bool) -> bool:
    """Run all checks concurrently and print their results; return whether all succeeded."""
    connected = asyncio.ensure_future(connection.running())
    checks: dict[str, Callable[[], Awaitable[str]]] = {
        "session store": lambda: _store(connection),
        "Temporal": lambda: _temporal(connected),
        "worker": lambda: _worker(connected, connection, here=here),
    }
    results = await asyncio.gather(*(_result(check) for check in checks.values()))
    console = Console(highlight=False, soft_wrap=True)
    for name, (healthy, text) in zip(checks, results, strict=True):
        mark = ("ok    ", "green") if healthy else ("failed", "red")
        console.print(Text.assemble(mark, f"  {name}: {printable(text)}"))
    return all(healthy for healthy, _ in results)


async def _result(check: Callable[[], Awaitable[str]]) -> tuple[bool, str]:
    try:
        async with asyncio.timeout(CHECK_TIMEOUT):
            return True, await check()
    except TimeoutError:
        return False, f"no answer within {CHECK_TIMEOUT:g} s"
    except DurableAdkError as error:
        return False, error.message
    except RPCError as error:
        return False, error.message


async def _store(connection: ServerConnection) -> str:
    return "; ".join([await _database(connection, url) for url in connection.databases])


async def _database(connection: ServerConnection, url: str) -> str:
    where = without_password(url)
    # A probe creates no tables. A newer version of the tables is accepted: a deployment is in
    # progress.
    async with _named(where), connection.database(url) as sessions:
        found = await sessions.schema()
    if found.empty:
        return f"{where}, empty"
    if not (found.current or found.newer):
        found.require_current(where)
    return where


@asynccontextmanager
async def _named(where: str) -> AsyncGenerator[None]:
    """Prefix errors with the name of what did not respond."""
    try:
        async with asyncio.timeout(CHECK_TIMEOUT):
            yield
    except TimeoutError:
        raise TransientError(f"{where}: no answer within {CHECK_TIMEOUT:g} s") from None
    except (StoreUnavailableError, RPCError) as error:
        raise TransientError(f"{where}: {error.message}") from error


async def _temporal(connected: asyncio.Future[Client]) -> str:
    client = await asyncio.shield(connected)
    where = f"{client.service_client.config.target_host}, namespace {client.namespace}"
    async with _named(where):
        await client.workflow_service.describe_namespace(
            DescribeNamespaceRequest(namespace=client.namespace)
        )
    return where


async def _worker(
    connected: asyncio.Future[Client], connection: ServerConnection, *, here: bool
) -> str:
    try:
        client = await asyncio.shield(connected)  # another check also awaits it
    except TemporalUnavailableError:
        raise InvalidRequestError("unknown, because Temporal does not answer") from None
    names = await connection.queues()
    found = {name: await _pollers(client, name, here=here) for name in names}
    if not any(found.values()):
        where = " on this machine" if here else ""
        queues = " or ".join(repr(name) for name in names)
        raise InvalidRequestError(f"no worker{where} polls task queue {queues}")
    return ", ".join(f"{len(ids)} on task queue {name}" for name, ids in found.items() if ids)


async def _pollers(client: Client, task_queue: str, *, here: bool) -> list[str]:
    """Return the identities of the workers that poll a task queue.

    Raises:
        InvalidRequestError: None of them accepts new invocations. With `here` this is no error: a
            healthy worker may wait for an operator to make its version current.
        WorkerStuckError: A worker on this machine has reported that user code blocks it.
    """
    answer = await described(client, task_queue)
    found = [one.identity for one in answer.pollers]
    if here:
        return _of_this_machine(found, task_queue)
    if found and answer.HasField("versioning_info"):
        routing = answer.versioning_info
        if problem := wrong_version(answer.pollers, routing, task_queue, "Make"):
            raise InvalidRequestError(problem)
    return found


def _of_this_machine(identities: list[str], task_queue: str) -> list[str]:
    """Return the identities of the workers on this machine.

    Raises:
        WorkerStuckError: One of them has reported that user code blocks it.
    """
    found: list[str] = []
    for identity in identities:
        process, _, host = identity.rpartition("@")  # the SDK's default format
        pid = int(process) if process.isdecimal() else None
        if host != socket.gethostname() or (pid is not None and not is_alive(pid)):
            continue
        if pid is not None and (reason := stuck_reason(pid, task_queue)):
            raise WorkerStuckError(f"process {pid} on this machine is stuck: {reason}")
        found.append(identity)
    return found
