"""``durable-adk health``, ``doctor`` and ``erase``: check, repair and delete what is stored."""

import asyncio
import socket
import sys
from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text
from temporalio.api.enums.v1 import TaskQueueType
from temporalio.api.taskqueue.v1 import TaskQueue as Queue
from temporalio.api.workflowservice.v1 import DescribeNamespaceRequest, DescribeTaskQueueRequest
from temporalio.client import Client
from temporalio.service import RPCError

from durable_adk.cli.connection import CliConnection, without_password
from durable_adk.cli.execution import FAILED, command
from durable_adk.cli.pending import OneSession, OneUser
from durable_adk.cli.target import load_app
from durable_adk.client.connect import connect
from durable_adk.errors import (
    DurableAdkError,
    InvalidRequestError,
    TemporalUnavailableError,
    WorkerStuckError,
)
from durable_adk.log import printable
from durable_adk.ops.doctor.diagnosis import diagnose
from durable_adk.ops.doctor.findings import Case, Finding
from durable_adk.ops.doctor.sources import Missing, Sources
from durable_adk.ops.erasure import Erasure, Holdings, erase as erase_user, survey
from durable_adk.ops.erasure.erasure import UNREACHED
from durable_adk.worker_status import is_alive, stuck_reason

ROUNDS = 3
"""How often to repair at most: what was restored may need repair itself."""

CHECK_TIMEOUT = 5.0
"""Seconds for each check of `health`."""

Here = Annotated[
    bool, typer.Option("--here", help="Only count workers of this machine or container.")
]
Fix = Annotated[bool, typer.Option("--fix", help="Repair what can be repaired, after asking.")]
FixYes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]
Findings = Annotated[bool, typer.Option("--json", help="One finding a line, as JSON.")]
OneApp = Annotated[str | None, typer.Option("--app", help="Only this app.")]
Since = Annotated[
    datetime | None,
    typer.Option(
        formats=["%Y-%m-%d", "%Y-%m-%dT%H:%M:%S"],
        help="Do not read the operation logs of sessions that have not changed since, in local "
        "time. All other checks are made.",
        show_default=False,
    ),
]
Code = Annotated[
    str | None,
    typer.Option(
        "--target",
        help="A folder, file or module that defines an app: the histories of custom agents cannot "
        "be read without their code.",
        show_default=False,
    ),
]
Lost = Annotated[
    bool | None,
    typer.Option(
        "--lost/--deleted",
        help="Sessions that only Temporal knows were lost with a backup, and are to be restored; "
        "or were deleted, and their workflows are to be ended.",
        show_default=False,
    ),
]
EraseApp = Annotated[
    str | None,
    typer.Option("--app", help="Only this app. Default: all with sessions.", show_default=False),
]
EraseUser = Annotated[str, typer.Option("--user", help="The user's id.", show_default=False)]
EraseYes = Annotated[
    bool, typer.Option("--yes", "-y", help="Delete the data. Default: only list it.")
]


@command("address", "store", "task_queue", "data_dir", log_level="error")
async def health(connection: CliConnection, *, here: Here = False) -> int:
    """Check that session store and Temporal answer, and that a worker polls the task queue.

    Exits with 1 if a check fails. It is meant for the probes of containers, and for people who have
    just set something up. Temporal remembers a killed worker for some minutes; with --here the
    worker must be alive, and not be blocked by user code.

    [bold]Example[/bold]

      durable-adk health --here
    """
    return 0 if await _check(connection, here=here) else FAILED


async def _check(connection: CliConnection, *, here: bool) -> bool:
    """Make all checks at once and print their results; whether all succeeded."""
    connected = asyncio.ensure_future(connect(connection.address))
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


async def _store(connection: CliConnection) -> str:
    return "; ".join([await _database(connection, url) for url in connection.databases])


async def _database(connection: CliConnection, url: str) -> str:
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
    connected: asyncio.Future[Client], connection: CliConnection, *, here: bool
) -> str:
    try:
        client = await asyncio.shield(connected)  # another check awaits it too
    except TemporalUnavailableError:
        raise InvalidRequestError("unknown, because Temporal does not answer") from None
    name = connection.task_queue or connection.settings.task_queue
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
        where = " on this machine" if here else ""
        raise InvalidRequestError(f"no worker{where} polls task queue {name!r}")
    return f"{len(found)} on task queue {name}"


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


@command("address", "store", "data_dir")
async def doctor(
    connection: CliConnection,
    *,
    app: OneApp = None,
    target: Code = None,
    user: OneUser = None,
    session: OneSession = None,
    since: Since = None,
    fix: Fix = False,
    yes: FixYes = False,
    lost: Lost = None,
    lines: Findings = False,
) -> int:
    """Find inconsistencies between the session store and Temporal; with --fix, repair them.

    Without --fix nothing is changed. Exits with 1 if there are findings, or if some remain.

    [bold]Example[/bold]

      durable-adk doctor --fix
    """
    async with connection.sessions(existing=True) as sessions, connection.temporal() as client:
        sources = Sources(
            client=client,
            sessions=sessions,
            app=app,
            user=user,
            session=session,
            since=None if since is None else since.timestamp(),
            code=[] if target is None else [load_app(target)],
            missing={None: Missing.UNKNOWN, True: Missing.LOST, False: Missing.DELETED}[lost],
        )
        return FAILED if await _repair(sources, fix=fix, yes=yes, lines=lines) else 0


async def _repair(sources: Sources, *, fix: bool, yes: bool, lines: bool) -> list[Case]:
    """Examine, repair what is to be repaired, and examine again; the findings that remain."""
    cases = await diagnose(sources)
    for _ in range(ROUNDS):
        _show_findings([case.finding for case in cases], lines=lines)
        fixable = [case for case in cases if case.remedy is not None]
        if not fix or not fixable:
            return cases
        count = "1 finding" if len(fixable) == 1 else f"{len(fixable)} findings"
        if not yes and not typer.confirm(f"Repair {count}?", err=True):
            return cases
        await _apply(fixable)
        cases = await diagnose(sources)
        if not cases:
            typer.echo("Repaired.", err=lines)
            return []
    return cases


async def _apply(cases: Sequence[Case]) -> None:
    """Apply each remedy; one that fails does not stop the others.

    Sessions are restored together, or none of them.
    """
    for case in cases:
        try:
            if case.remedy is not None:
                await case.remedy()
        except DurableAdkError as error:
            name = f"{case.finding.kind} of session {case.finding.session}"
            typer.echo(f"Not repaired: {printable(f'{name}: {error.message}')}", err=True)


def _show_findings(findings: Sequence[Finding], *, lines: bool) -> None:
    if lines:
        for finding in findings:
            typer.echo(finding.to_json())
        return
    if not findings:
        typer.echo("No problems found.")
        return
    table = Table(title=None, show_lines=True, expand=True)
    for column in ("finding", "where", "problem", "what --fix does"):
        table.add_column(column, overflow="fold", ratio=1 if column in ("finding", "where") else 2)
    for finding in findings:
        names = {
            "app": finding.app,
            "user": finding.user,
            "session": finding.session,
            "invocation": finding.invocation_id,
        }
        where = [f"{what} {name}" for what, name in names.items() if name]
        cells = [finding.kind, "\n".join(where), finding.problem, finding.fix or "nothing"]
        table.add_row(*(Text(printable(cell, keep="\n")) for cell in cells))
    Console(file=sys.stdout, highlight=False).print(table)


@command("address", "store", "data_dir")
async def erase(
    connection: CliConnection, *, user: EraseUser, app: EraseApp = None, yes: EraseYes = False
) -> None:
    """List a user's data; with --yes, delete it from all stores and from Temporal.

    Open invocations are ended. After an error, run it again. Name the app if it is not among those
    that are listed. At the end it lists what it cannot reach.

    [bold]Example[/bold]

      durable-adk erase --user anna --yes
    """
    async with (
        connection.sessions(existing=True) as sessions,
        connection.stores() as stores,
        connection.temporal() as client,
    ):
        names = [app] if app else await sessions.list_apps()
        if not names:
            typer.echo("No app has sessions in this store; name one with --app.")
        for name in names:
            erasure = Erasure(app=name, user=user, client=client, **stores.services())
            found = await (erase_user(erasure) if yes else survey(erasure))
            typer.echo(f"app {printable(name)}:")
            _show_holdings(found, "removed" if yes else "found")
    if yes:
        typer.echo("Not reached:\n" + "\n".join(f"  {where}" for where in UNREACHED))
    else:
        typer.echo("Nothing was removed; add --yes to remove it.")


def _show_holdings(found: Holdings, done: str) -> None:
    counts = {
        "sessions": len(found.sessions),
        "keys of user state": found.state_keys,
        "artifacts": found.artifacts,
        "credentials": found.credentials,
        "schedules": len(found.schedules.names),
        "workflow runs": len(found.runs.found),
        "payload folders": len(found.payloads),
    }
    for what, count in counts.items():
        typer.echo(f"{done} {count} {what}")
    typer.echo(f"{done} memory, if there was any")
    if found.runs.open:
        names = ", ".join(printable(name) for name in found.runs.open)
        typer.echo(f"open workflows {'before' if done == 'removed' else 'now'}: {names}")
    for what, unread in (("workflows", found.runs.unread), ("schedules", found.schedules.unread)):
        if unread:
            typer.echo(
                f"{unread} {what} could not be read, because a key is missing or they are broken; "
                "their user is unknown, so they were left alone"
            )
