"""``durable-adk doctor``: find and repair inconsistencies."""

from collections.abc import Sequence
from datetime import datetime

import typer

from durable_adk.cli.execution import FAILED
from durable_adk.cli.server import ServerConnection, load_app
from durable_adk.cli.terminal import counted, print_heading, print_rows
from durable_adk.errors import DurableAdkError, InvalidRequestError
from durable_adk.log import printable
from durable_adk.ops.doctor import Case, Finding, Missing, Sources, diagnose
from durable_adk.workflows.invocation import TYPE_NAME

ROUNDS = 3
"""Maximum rounds of repair: a restored session may need repair itself."""


async def doctor(
    connection: ServerConnection,
    *,
    app: str | None,
    target: str | None,
    user: str | None,
    session: str | None,
    since: datetime | None,
    fix: bool,
    yes: bool,
    lost: bool | None,
    lines: bool,
) -> int:
    """Find inconsistencies between the session store and Temporal; with --fix, repair them."""
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


async def _examined(sources: Sources) -> str:
    """Return what was examined, to qualify the message that no problems were found."""
    query = f"WorkflowType = '{TYPE_NAME}' AND ExecutionStatus = 'Running'"
    apps = await sources.sessions.list_apps()
    limits = {"app": sources.app, "user": sources.user, "session": sources.session}
    only = [f"{what} {name}" for what, name in limits.items() if name is not None]
    what = f"the sessions of {', '.join(only)}" if only else f"all sessions of {', '.join(apps)}"
    if not only and not apps:
        what = "the store, which has no sessions,"
    count = (await sources.client.count_workflows(query)).count
    return printable(
        f"Compared {what} with namespace {sources.client.namespace}, where "
        f"{counted(count, 'invocation')} {'is' if count == 1 else 'are'} open."
    )


async def _repair(sources: Sources, *, fix: bool, yes: bool, lines: bool) -> list[Case]:
    """Examine, repair, and examine again; return the remaining findings."""
    cases = await diagnose(sources)
    if not cases and not lines:
        typer.echo(f"No problems found.\n{await _examined(sources)}")
        return []
    for _ in range(ROUNDS):
        _show_findings([case.finding for case in cases], lines=lines)
        fixable = [case for case in cases if case.remedy is not None]
        if not fix or not fixable:
            return cases
        if not yes and not _confirmed(counted(len(fixable), "finding")):
            return cases
        await _apply(fixable)
        cases = await diagnose(sources)
        if not cases:
            typer.echo("Repaired.", err=lines)
            return []
    return cases


def _confirmed(what: str) -> bool:
    """Ask the user whether to repair.

    Raises:
        InvalidRequestError: There is no terminal to ask on.
    """
    try:
        return typer.confirm(f"Repair {what}?", err=True)
    except typer.Abort:
        raise InvalidRequestError(
            f"Nothing was repaired, because there was no answer; add --yes to repair {what} "
            "without a prompt."
        ) from None


async def _apply(cases: Sequence[Case]) -> None:
    """Apply each remedy; a failing one does not stop the others.

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
    for finding in findings:
        print_heading(f"{finding.kind}: {finding.problem}", style="bold yellow")
        print_rows(
            [
                ("app", finding.app),
                ("user", finding.user),
                ("session", finding.session),
                ("invocation", finding.invocation_id or ""),
                ("--fix", finding.fix or "does nothing about it"),
            ]
        )
