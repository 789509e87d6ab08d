"""``durable-adk health``: whether what a worker needs answers, and whether one is there."""

import asyncio
import socket
from collections.abc import Awaitable, Callable
from typing import Annotated

import typer
from rich.console import Console
from rich.text import Text
from temporalio.api.enums.v1 import TaskQueueType
from temporalio.api.taskqueue.v1 import TaskQueue as Queue
from temporalio.api.workflowservice.v1 import DescribeNamespaceRequest, DescribeTaskQueueRequest
from temporalio.client import Client
from temporalio.service import RPCError

from durable_adk.cli.execution import FAILED, execute
from durable_adk.cli.options import Address, DataDir, Debug, Store, TaskQueue
from durable_adk.cli.places import Places, place_shown
from durable_adk.client.connect import connect
from durable_adk.errors import (
    DurableAdkError,
    InvalidRequestError,
    TemporalUnavailableError,
    WorkerStuckError,
)
from durable_adk.log import configure, printable
from durable_adk.worker_status import is_alive, stuck_reason

PATIENCE = 5.0
"""Seconds for each answer."""

Here = Annotated[
    bool, typer.Option("--here", help="Only a worker of this machine or container counts.")
]


def health_command(
    *,
    here: Here = False,
    address: Address = None,
    store: Store = None,
    task_queue: TaskQueue = None,
    data_dir: DataDir = None,
    debug: Debug = False,
) -> None:
    """Say whether session store and Temporal answer, and whether a worker polls the task queue.

    It exits with 1 if one of them does not. Meant for probes of containers, and for people who
    have just set something up. Temporal remembers a worker that was killed for some minutes; with
    --here it has to be alive, and not kept from its work by user code.

    [bold]Example[/bold]

      durable-adk health --here
    """
    configure("error")
    places = Places(address=address, store=store, task_queue=task_queue, data_dir=data_dir)
    bad: list[str] = []

    async def work() -> None:
        bad.extend(await _look(places, here=here))

    try:
        execute(work(), debug=debug)
    except typer.Exit as ended:
        raise typer.Exit(ended.exit_code or (FAILED if bad else 0)) from None


async def _look(places: Places, *, here: bool) -> list[str]:
    """Make all checks side by side, and say what came of each; the names of those that failed."""
    connected = asyncio.ensure_future(connect(places.address))
    checks: dict[str, Callable[[], Awaitable[str]]] = {
        "session store": lambda: _store(places),
        "Temporal": lambda: _temporal(connected),
        "worker": lambda: _worker(connected, places, here=here),
    }
    said = await asyncio.gather(*(_said(check) for check in checks.values()))
    console = Console(highlight=False, soft_wrap=True)
    for name, (well, text) in zip(checks, said, strict=True):
        mark = ("ok    ", "green") if well else ("failed", "red")
        console.print(Text.assemble(mark, f"  {name}: {printable(text)}"))
    return [name for name, (well, _) in zip(checks, said, strict=True) if not well]


async def _said(check: Callable[[], Awaitable[str]]) -> tuple[bool, str]:
    try:
        async with asyncio.timeout(PATIENCE):
            return True, await check()
    except TimeoutError:
        return False, f"no answer within {PATIENCE:g} s"
    except DurableAdkError as error:
        return False, error.message
    except RPCError as error:
        return False, error.message


async def _store(places: Places) -> str:
    return "; ".join([await _database(places, url) for url in places.databases])


async def _database(places: Places, url: str) -> str:
    # A probe makes no tables, and newer ones are those of a deploy that is going on.
    async with places.unprepared_sessions(url) as sessions:
        found = await sessions.schema()
    if found.empty:
        return f"{place_shown(url)}, empty so far"
    if not (found.current or found.newer):
        found.require_current(place_shown(url))
    return place_shown(url)


async def _temporal(connected: asyncio.Future[Client]) -> str:
    client = await asyncio.shield(connected)
    await client.workflow_service.describe_namespace(
        DescribeNamespaceRequest(namespace=client.namespace)
    )
    return f"{client.service_client.config.target_host}, namespace {client.namespace}"


async def _worker(connected: asyncio.Future[Client], places: Places, *, here: bool) -> str:
    try:
        client = await asyncio.shield(connected)  # another check waits for it too
    except TemporalUnavailableError:
        raise InvalidRequestError("Temporal knows, and does not answer") from None
    name = places.task_queue or places.settings.task_queue
    answer = await client.workflow_service.describe_task_queue(
        DescribeTaskQueueRequest(
            namespace=client.namespace,
            task_queue=Queue(name=name),
            task_queue_type=TaskQueueType.TASK_QUEUE_TYPE_WORKFLOW,
        )
    )
    found = [one.identity for one in answer.pollers]
    if here:
        found = _of_this_machine(found, name)
    if not found:
        where = " of this machine" if here else ""
        raise InvalidRequestError(f"none{where} polls task queue {name!r}")
    return f"{len(found)} on task queue {name}"


def _of_this_machine(identities: list[str], task_queue: str) -> list[str]:
    """Those workers that run here.

    Raises:
        WorkerStuckError: One of them has said that it cannot do its work.
    """
    found: list[str] = []
    for identity in identities:
        process, _, host = identity.rpartition("@")  # the SDK's own form
        pid = int(process) if process.isdecimal() else None
        if host != socket.gethostname() or (pid is not None and not is_alive(pid)):
            continue
        if pid is not None and (reason := stuck_reason(pid, task_queue)):
            raise WorkerStuckError(f"process {pid} of this machine is stuck: {reason}")
        found.append(identity)
    return found
