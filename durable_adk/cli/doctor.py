"""``durable-adk doctor``: finds what a store and its Temporal disagree on, and mends it."""

import sys
from collections.abc import Sequence
from datetime import datetime
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from durable_adk.cli.execution import FAILED, execute
from durable_adk.cli.options import Address, AnySession, AnyUser, DataDir, Debug, Store
from durable_adk.cli.places import Places, load_app
from durable_adk.errors import DurableAdkError
from durable_adk.log import configure, printable
from durable_adk.ops.doctor.doctor import examine
from durable_adk.ops.doctor.findings import Case, Finding
from durable_adk.ops.doctor.sources import Missing, Sources

ROUNDS = 3
"""How often it mends at most."""

Fix = Annotated[bool, typer.Option("--fix", help="Mend what can be mended, after asking.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]
JsonLines = Annotated[bool, typer.Option("--json", help="One finding a line, as JSON.")]
AnyApp = Annotated[str | None, typer.Option("--app", help="Only of this app.")]
Since = Annotated[
    datetime | None,
    typer.Option(
        formats=["%Y-%m-%d", "%Y-%m-%dT%H:%M:%S"],
        help="Do not read the logs of sessions that have not changed since, in local time; "
        "everything else is looked at all the same.",
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
        help="What sessions are that only Temporal knows: lost with a backup, and to be put back, "
        "or deleted, and their workflows to be ended.",
        show_default=False,
    ),
]


def doctor_command(
    *,
    app: AnyApp = None,
    target: Code = None,
    user: AnyUser = None,
    session: AnySession = None,
    since: Since = None,
    fix: Fix = False,
    yes: Yes = False,
    lost: Lost = None,
    lines: JsonLines = False,
    address: Address = None,
    store: Store = None,
    data_dir: DataDir = None,
    debug: Debug = False,
) -> None:
    """Find what the session store and Temporal disagree on, and with --fix mend it.

    Without --fix nothing is changed. It exits with 1 if something is wrong, or is left so.

    [bold]Example[/bold]

      durable-adk doctor --fix
    """
    configure("warning")
    places = Places(address=address, store=store, data_dir=data_dir)
    missing = {None: Missing.UNKNOWN, True: Missing.LOST, False: Missing.DELETED}[lost]
    left: list[Case] = []

    async def work() -> None:
        code = [] if target is None else [load_app(target)]
        async with places.sessions(existing=True) as sessions, places.temporal() as client:
            sources = Sources(
                client=client,
                sessions=sessions,
                app=app,
                user=user,
                session=session,
                since=None if since is None else since.timestamp(),
                code=code,
                missing=missing,
            )
            left.extend(await _treat(sources, fix=fix, yes=yes, lines=lines))

    try:
        execute(work(), debug=debug)
    except typer.Exit as ended:
        raise typer.Exit(ended.exit_code or (FAILED if left else 0)) from None


async def _treat(sources: Sources, *, fix: bool, yes: bool, lines: bool) -> list[Case]:
    """Examine, and mend what is to be mended; what is left.

    It looks again after mending: what was put back may have to be mended itself.
    """
    cases = await examine(sources)
    for _ in range(ROUNDS):
        _show([case.finding for case in cases], lines=lines)
        curable = [case for case in cases if case.remedy is not None]
        if not fix or not curable:
            return cases
        if not yes and not typer.confirm(f"Mend {_count(curable)}?", err=True):
            return cases
        await _mend(curable)
        cases = await examine(sources)
        if not cases:
            typer.echo("Mended.", err=lines)
            return []
    return cases


async def _mend(cases: Sequence[Case]) -> None:
    """Do what was said; what cannot be done keeps nothing else from it.

    Sessions that are put back are so together, or none of them.
    """
    for case in cases:
        try:
            if case.remedy is not None:
                await case.remedy()
        except DurableAdkError as error:
            place = f"{case.finding.kind} of session {case.finding.session}"
            typer.echo(f"Not mended: {printable(f'{place}: {error.message}')}", err=True)


def _count(cases: Sequence[Case]) -> str:
    return "1 finding" if len(cases) == 1 else f"{len(cases)} findings"


def _show(findings: Sequence[Finding], *, lines: bool) -> None:
    if lines:
        for finding in findings:
            typer.echo(finding.to_json())
        return
    if not findings:
        typer.echo("Nothing is wrong.")
        return
    table = Table(title=None, show_lines=True, expand=True)
    for column in ("what", "where", "what is wrong", "what --fix does"):
        table.add_column(column, overflow="fold", ratio=1 if column in ("what", "where") else 2)
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
