"""``durable-adk health``: check the store, Temporal and the workers."""

import asyncio
import socket
from collections.abc import Awaitable, Callable

from rich.console import Console
from rich.text import Text
from temporalio.api.enums.v1 import TaskQueueType
from temporalio.api.taskqueue.v1 import TaskQueue as Queue
from temporalio.api.workflowservice.v1 import DescribeNamespaceRequest, DescribeTaskQueueRequest
from temporalio.client import Client
from temporalio.service import RPCError

from durable_adk.cli.connection import without_password
from durable_adk.cli.execution import FAILED
from durable_adk.cli.server import ServerConnection
from durable_adk.errors import (
    DurableAdkError,
    InvalidRequestError,
    TemporalUnavailableError,
    WorkerStuckError,
)
from durable_adk.log import printable
from durable_adk.worker_status import is_alive, stuck_reason

CHECK_TIMEOUT = 5.0
"""Seconds for each check of `health`."""


async def health(connection: ServerConnection, *, here: bool) -> int:
    """Check that session store and Temporal answer, and that a worker polls the task queue."""
    return 0 if await _check(connection, here=here) else FAILED


async def _check(connection: ServerConnection, *, here: bool) -> bool:
    """Make all checks at once and print their results; whether all succeeded."""
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
    # A probe creates no tables. Newer ones belong to a deploy in progress, and are fine.
    async with connection.database(url) as sessions:
        found = await sessions.schema()
    if found.empty:
        return f"{without_password(url)}, empty"
    if not (found.current or found.newer):
        found.require_current(without_password(url))
    return without_password(url)


async def _temporal(connected: asyncio.Future[Client]) -> str:
    client = await asyncio.shield(connected)
    await client.workflow_service.describe_namespace(
        DescribeNamespaceRequest(namespace=client.namespace)
    )
    return f"{client.service_client.config.target_host}, namespace {client.namespace}"


async def _worker(
    connected: asyncio.Future[Client], connection: ServerConnection, *, here: bool
) -> str:
    try:
        client = await asyncio.shield(connected)  # another check awaits it too
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
    """The identities of the workers that poll a task queue."""
    answer = await client.workflow_service.describe_task_queue(
        DescribeTaskQueueRequest(
            namespace=client.namespace,
            task_queue=Queue(name=task_queue),
            task_queue_type=TaskQueueType.TASK_QUEUE_TYPE_WORKFLOW,
        )
    )
    found = [one.identity for one in answer.pollers]
    return _of_this_machine(found, task_queue) if here else found


def _of_this_machine(identities: list[str], task_queue: str) -> list[str]:
    """The identities of workers that run on this machine.

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
