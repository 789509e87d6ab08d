"""``durable-adk doctor``: find and repair inconsistencies."""

import sys
from collections.abc import Sequence
from datetime import datetime
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from durable_adk.cli.execution import FAILED, command
from durable_adk.cli.pending import OneSession, OneUser
from durable_adk.cli.server import ServerConnection, load_app
from durable_adk.errors import (
    DurableAdkError,
)
from durable_adk.log import printable
from durable_adk.ops.doctor.diagnosis import diagnose
from durable_adk.ops.doctor.findings import Case, Finding
from durable_adk.ops.doctor.sources import Missing, Sources

ROUNDS = 3
"""How often to repair at most: what was restored may need repair itself."""
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


@command("address", "store", "data_dir")
async def doctor(
    connection: ServerConnection,
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
