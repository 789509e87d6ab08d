"""``durable-adk check``: where each part of an app runs, and its findings."""

import typer

from durable_adk.cli.execution import FAILED
from durable_adk.cli.server import load_app
from durable_adk.cli.terminal import counted, print_table
from durable_adk.log import printable
from durable_adk.ops.app_check import AGAIN_WITH_KEY, AppPart, app_parts

_KEY = (
    "Pass tool_context.idempotency_key on to what a tool changes, so that a call that runs again "
    "takes effect once."
)


async def check(*, target: str, as_json: bool) -> int:
    """List the parts of an app; the exit code shows whether there are findings."""
    app = load_app(target)
    parts = app_parts(app)
    if as_json:
        for part in parts:
            typer.echo(part.to_json())
    else:
        _show(parts)
    return FAILED if any(part.findings for part in parts) else 0


def _show(parts: list[AppPart]) -> None:
    print_table(
        ("agent", "part", "name", "runs in", "after a crash"),
        [(part.agent, part.kind, part.name, part.runs_in, part.after_crash) for part in parts],
        sentences=2,
    )
    found = [(part, finding) for part in parts for finding in part.findings]
    warned = [(part, warning) for part in parts for warning in part.warnings]
    typer.echo()
    if any(part.after_crash == AGAIN_WITH_KEY for part in parts):
        typer.echo(_KEY)
    typer.echo(f"{counted(len(found), 'finding')}:" if found else "No findings.")
    _list(found)
    if warned:
        typer.echo(f"{counted(len(warned), 'warning')}:")
    _list(warned)


def _list(items: list[tuple[AppPart, str]]) -> None:
    for part, text in items:
        typer.echo(printable(f"  {part.agent} {part.kind} {part.name}: {text}"))
