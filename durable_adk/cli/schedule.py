"""``durable-adk schedule``: schedules with which Temporal starts invocations."""

import re
from collections.abc import Awaitable, Callable
from datetime import timedelta
from pathlib import Path

import typer
from temporalio.client import Client, ScheduleHandle, ScheduleOverlapPolicy

from durable_adk.cli.server import ServerConnection, load_app
from durable_adk.cli.terminal import local_time, print_table, shortened
from durable_adk.client.schedules import change_schedule, create_schedule, list_schedules
from durable_adk.embedded.server import TemporalServer
from durable_adk.errors import InvalidRequestError, TemporalUnavailableError
from durable_adk.wire.messages import InvocationRequest, user_content

_MESSAGE = 60  # maximum characters of a message in the list
_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}


async def create(
    connection: ServerConnection,
    name: str,
    app: str,
    message: str,
    *,
    cron: list[str] | None,
    every: str | None,
    time_zone: str | None,
    user: str,
    session: str | None,
    overlap: str,
    paused: bool,
) -> None:
    """Send MESSAGE to APP on a schedule."""
    app_name = _app_name(app)
    await create_schedule(
        await _server(connection),
        name,
        InvocationRequest(app=app_name, user=user, session=session, message=message),
        cron=cron or (),
        every=_interval(every) if every else None,
        time_zone=time_zone,
        task_queue=connection.queue(app_name),
        overlap=_policy(overlap),
        paused=paused,
    )
    typer.echo(f"Schedule {name} created.")


async def list_(connection: ServerConnection) -> None:
    """List the schedules: their times, messages and recipients."""
    rows: list[list[str]] = []
    async for one in list_schedules(await _server(connection)):
        next_at = one.next_at and local_time(one.next_at.timestamp())
        sent = one.request
        parts = (user_content(sent.message).parts if sent else None) or []
        message = " ".join(part.text for part in parts if part.text) or "-"
        to = [sent.app, sent.user, sent.session or "new"] if sent else ["-", "-", "-"]
        state = "paused" if one.paused else next_at or "-"
        rows.append([one.name, state, one.when or "-", *to, shortened(message, _MESSAGE)])
    if rows:
        print_table(["name", "next", "when", "app", "user", "session", "message"], rows)
    else:
        typer.echo("There are no schedules.")


async def pause(connection: ServerConnection, name: str) -> None:
    """Pause a schedule until it is resumed."""
    await _change(connection, name, ScheduleHandle.pause, "paused")


async def resume(connection: ServerConnection, name: str) -> None:
    """Resume a paused schedule."""
    await _change(connection, name, ScheduleHandle.unpause, "resumed")


async def trigger(connection: ServerConnection, name: str) -> None:
    """Start an invocation of a schedule now."""
    await _change(connection, name, ScheduleHandle.trigger, "triggered")


async def delete(connection: ServerConnection, name: str) -> None:
    """Delete a schedule; invocations that it has started continue."""
    await _change(connection, name, ScheduleHandle.delete, "deleted")


async def _change(
    connection: ServerConnection,
    name: str,
    change: Callable[[ScheduleHandle], Awaitable[None]],
    done: str,
) -> None:
    client = await _server(connection)
    await change_schedule(name, change(client.get_schedule_handle(name)))
    typer.echo(f"Schedule {name} {done}.")


async def _server(connection: ServerConnection) -> Client:
    """Connect to a running server: one that ended with the command would trigger no schedule.

    Raises:
        TemporalUnavailableError: No server runs.
    """
    folder = connection.data_folder
    if connection.address is None and await TemporalServer.find(folder) is None:
        raise TemporalUnavailableError(
            f"No `durable-adk dev` runs with {folder}, and schedules fire only while a server "
            "does; start it, or name Temporal with TEMPORAL_ADDRESS (or --address)."
        )
    return await connection.running()


def _app_name(app: str) -> str:
    return load_app(app).name if Path(app).exists() else app


def _interval(text: str) -> timedelta:
    found = re.fullmatch(r"(\d+)([smhd])", text)
    if found is None or int(found[1]) == 0:
        raise InvalidRequestError(f"--every is {text!r}; use a number and s, m, h or d: 90m.")
    return timedelta(**{_UNITS[found[2]]: int(found[1])})


def _policy(text: str) -> ScheduleOverlapPolicy:
    try:
        return ScheduleOverlapPolicy[text.upper().replace("-", "_")]
    except KeyError:
        known = ", ".join(one.name.lower().replace("_", "-") for one in ScheduleOverlapPolicy)
        raise InvalidRequestError(f"--overlap is {text!r}; use one of {known}.") from None
