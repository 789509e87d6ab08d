"""``durable-adk sessions import`` and ``export``: copies from and to google-adk's databases."""

import json
from dataclasses import asdict

import typer

from durable_adk.cli.connection import CliConnection
from durable_adk.cli.execution import FAILED, note
from durable_adk.log import printable
from durable_adk.ops.adk_sessions import (
    CopyReport,
    OpenRequest,
    Problem,
    StoredSessions,
    copy_sessions,
    open_database,
)


async def import_sessions(connection: CliConnection, url: str, *, as_json: bool) -> int:
    """Import the sessions of a google-adk database into the session store."""
    async with open_database(url) as database, connection.sessions() as store:
        report = await copy_sessions(database, store)
    if not as_json:
        for one in report.requests:
            note(printable(_request(one)))
    return _show(report, as_json=as_json)


async def export_sessions(connection: CliConnection, url: str, *, as_json: bool) -> int:
    """Export the sessions of the session store into a database for google-adk."""
    async with (
        connection.sessions(existing=True) as store,
        open_database(url, is_target=True) as database,
    ):
        report = await copy_sessions(StoredSessions(store=store), database)
    return _show(report, as_json=as_json)


def _show(report: CopyReport, *, as_json: bool) -> int:
    if as_json:
        typer.echo(json.dumps(report.as_json(), ensure_ascii=False))
    else:
        for one in report.problems:
            note(printable(_line(one)))
        for name, counts in (("sessions", report.sessions), ("events", report.events)):
            shown = (f"{number:,} {word}" for word, number in asdict(counts).items())
            typer.echo(f"{name}: {', '.join(shown)}")
    return FAILED if report.problems else 0


def _request(one: OpenRequest) -> str:
    what = "an answer" if one.kind == "long_running" else f"a {one.kind}"
    return (
        f"app {one.app}, user {one.user}, session {one.session}: {one.tool} waited for {what}, "
        "which cannot be given here; send a message, so that it asks again."
    )


def _line(one: Problem) -> str:
    ids = {"app": one.app, "user": one.user, "session": one.session, "event": one.event}
    return f"{', '.join(f'{name} {text}' for name, text in ids.items() if text)}: {one.problem}"
