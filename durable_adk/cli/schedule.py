"""``durable-adk schedule``: have Temporal start invocations at set times."""

import re
from collections.abc import Awaitable, Callable
from datetime import timedelta
from pathlib import Path
from typing import Annotated

import typer
from temporalio.client import ScheduleHandle, ScheduleOverlapPolicy

from durable_adk.cli.execution import command
from durable_adk.cli.program import group
from durable_adk.cli.server import ServerConnection, load_app
from durable_adk.cli.terminal import Session, User, local_time, print_table, shortened
from durable_adk.client.schedules import change_schedule, create_schedule, list_schedules
from durable_adk.errors import InvalidRequestError
from durable_adk.wire.messages import InvocationRequest, user_content

schedule = group("Have Temporal start invocations at set times.")
Name = Annotated[str, typer.Argument(help="The schedule's name.", show_default=False)]
AppOrTarget = Annotated[
    str,
    typer.Argument(
        help="The app: its name, or a folder, file or module that defines it.", show_default=False
    ),
]
ScheduledMessage = Annotated[
    str, typer.Argument(help="The message to send each time.", show_default=False)
]
Cron = Annotated[
    list[str] | None, typer.Option(help="A cron line, such as '0 9 * * MON-FRI'; repeatable.")
]
Every = Annotated[str | None, typer.Option(help="An interval, such as 90m, 6h or 1d.")]
Zone = Annotated[
    str | None, typer.Option(help="Time zone of --cron, such as Europe/Berlin. Default: UTC.")
]
Overlap = Annotated[
    str,
    typer.Option(
        help="While the previous invocation is open: skip, buffer-one, buffer-all, cancel-other, "
        "terminate-other or allow-all."
    ),
]
Paused = Annotated[bool, typer.Option("--paused", help="Create it paused.")]
_MESSAGE = 60  # characters of a message in the list
_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}


@schedule.command("create")
@command("address", "task_queue", "data_dir")
async def create(
    connection: ServerConnection,
    name: Name,
    app: AppOrTarget,
    message: ScheduledMessage,
    *,
    cron: Cron = None,
    every: Every = None,
    time_zone: Zone = None,
    user: User = "user",
    session: Session = None,
    overlap: Overlap = "skip",
    paused: Paused = False,
) -> None:
    """Send MESSAGE to APP again and again.

    Each time starts an invocation: in --session if that is given, else in a new session.

    [bold]Example[/bold]

      durable-adk schedule create digest my_agent "What is new?" --cron "0 7 * * *"
    """
    app_name = _app_name(app)
    async with connection.temporal() as client:
        await create_schedule(
            client,
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


@schedule.command("list")
@command("address", "data_dir")
async def list_(connection: ServerConnection) -> None:
    """List the schedules: their times, what they send, and to whom."""
    rows: list[list[str]] = []
    async with connection.temporal() as client:
        async for one in list_schedules(client):
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


@schedule.command("pause")
@command("address", "data_dir")
async def pause(connection: ServerConnection, name: Name) -> None:
    """Pause a schedule until it is resumed."""
    await _change(connection, name, ScheduleHandle.pause, "paused")


@schedule.command("resume")
@command("address", "data_dir")
async def resume(connection: ServerConnection, name: Name) -> None:
    """Resume a paused schedule."""
    await _change(connection, name, ScheduleHandle.unpause, "resumed")


@schedule.command("trigger")
@command("address", "data_dir")
async def trigger(connection: ServerConnection, name: Name) -> None:
    """Start an invocation of a schedule now."""
    await _change(connection, name, ScheduleHandle.trigger, "triggered")


@schedule.command("delete")
@command("address", "data_dir")
async def delete(connection: ServerConnection, name: Name) -> None:
    """Delete a schedule; invocations that it has started continue."""
    await _change(connection, name, ScheduleHandle.delete, "deleted")


async def _change(
    connection: ServerConnection,
    name: str,
    change: Callable[[ScheduleHandle], Awaitable[None]],
    done: str,
) -> None:
    async with connection.temporal() as client:
        await change_schedule(name, change(client.get_schedule_handle(name)))
    typer.echo(f"Schedule {name} {done}.")


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
