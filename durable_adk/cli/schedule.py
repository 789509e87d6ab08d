"""``durable-adk schedule``: invocations that Temporal starts at set times."""

import re
from collections.abc import Awaitable, Callable
from datetime import timedelta
from pathlib import Path
from typing import Annotated

import typer
from temporalio.client import Client, ScheduleHandle, ScheduleOverlapPolicy

from durable_adk.cli.execution import execute
from durable_adk.cli.options import Address, DataDir, Debug, Session, TaskQueue, User
from durable_adk.cli.places import Places, load_app
from durable_adk.client.schedules import change_schedule, create_schedule, list_schedules
from durable_adk.errors import InvalidRequestError
from durable_adk.log import configure
from durable_adk.settings import DEFAULT_TASK_QUEUE
from durable_adk.wire.messages import InvocationRequest

schedule_app = typer.Typer(
    no_args_is_help=True, help="Have Temporal start invocations at set times."
)
Name = Annotated[str, typer.Argument(help="The schedule's name.", show_default=False)]
AppOrTarget = Annotated[
    str, typer.Argument(help="The app: its name, or what defines it.", show_default=False)
]
Message = Annotated[str, typer.Argument(help="What is sent each time.", show_default=False)]
Cron = Annotated[
    list[str] | None, typer.Option(help="A cron line, such as '0 9 * * MON-FRI'; repeatable.")
]
Every = Annotated[str | None, typer.Option(help="An interval, such as 90m, 6h or 1d.")]
Zone = Annotated[str | None, typer.Option(help="Of --cron, such as Europe/Berlin. Default: UTC.")]
Overlap = Annotated[
    str,
    typer.Option(
        help="While the invocation before is open: skip, buffer-one, buffer-all, cancel-other, "
        "terminate-other or allow-all."
    ),
]
Paused = Annotated[bool, typer.Option("--paused", help="It does not fire before it is resumed.")]
_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}


@schedule_app.command("create")
def create_command(
    name: Name,
    app: AppOrTarget,
    message: Message,
    *,
    cron: Cron = None,
    every: Every = None,
    time_zone: Zone = None,
    user: User = "user",
    session: Session = None,
    overlap: Overlap = "skip",
    paused: Paused = False,
    address: Address = None,
    task_queue: TaskQueue = None,
    data_dir: DataDir = None,
    debug: Debug = False,
) -> None:
    """Send MESSAGE to APP again and again.

    Each time is an invocation of its own: in --session if that is given, else in a new session.

    [bold]Example[/bold]

      durable-adk schedule create digest my_agent "What is new?" --cron "0 7 * * *"
    """
    places = Places(address=address, task_queue=task_queue, data_dir=data_dir)
    app_name = load_app(app).name if Path(app).exists() else app

    async def work(client: Client) -> None:
        await create_schedule(
            client,
            name,
            InvocationRequest(app=app_name, user=user, session=session, message=message),
            cron=cron or (),
            every=_interval(every) if every else None,
            time_zone=time_zone,
            task_queue=_queue(places, app_name),
            overlap=_policy(overlap),
            paused=paused,
        )
        typer.echo(f"Schedule {name} is there.")

    _run(places, work, debug=debug)


@schedule_app.command("list")
def list_command(
    *, address: Address = None, data_dir: DataDir = None, debug: Debug = False
) -> None:
    """List the schedules, and when each fires next."""

    async def work(client: Client) -> None:
        async for one in list_schedules(client):
            following = one.next_at.isoformat(timespec="seconds") if one.next_at else "-"
            typer.echo(f"{one.name}  {'paused' if one.paused else following}")

    _run(Places(address=address, data_dir=data_dir), work, debug=debug)


@schedule_app.command("pause")
def pause_command(
    name: Name, *, address: Address = None, data_dir: DataDir = None, debug: Debug = False
) -> None:
    """Let it fire no more until it is resumed."""
    _change(name, ScheduleHandle.pause, "is paused", address, data_dir, debug=debug)


@schedule_app.command("resume")
def resume_command(
    name: Name, *, address: Address = None, data_dir: DataDir = None, debug: Debug = False
) -> None:
    """Let it fire again."""
    _change(name, ScheduleHandle.unpause, "fires again", address, data_dir, debug=debug)


@schedule_app.command("trigger")
def trigger_command(
    name: Name, *, address: Address = None, data_dir: DataDir = None, debug: Debug = False
) -> None:
    """Let it fire once, now."""
    _change(name, ScheduleHandle.trigger, "was triggered", address, data_dir, debug=debug)


@schedule_app.command("delete")
def delete_command(
    name: Name, *, address: Address = None, data_dir: DataDir = None, debug: Debug = False
) -> None:
    """Delete it; invocations that it has started go on."""
    _change(name, ScheduleHandle.delete, "is deleted", address, data_dir, debug=debug)


def _change(
    name: str,
    change: Callable[[ScheduleHandle], Awaitable[None]],
    done: str,
    address: str | None,
    data_dir: Path | None,
    *,
    debug: bool,
) -> None:
    async def work(client: Client) -> None:
        await change_schedule(name, change(client.get_schedule_handle(name)))
        typer.echo(f"Schedule {name} {done}.")

    _run(Places(address=address, data_dir=data_dir), work, debug=debug)


def _run(places: Places, work: Callable[[Client], Awaitable[None]], *, debug: bool) -> None:
    async def connected() -> None:
        async with places.temporal() as client:
            await work(client)

    configure("warning")
    execute(connected(), debug=debug)


def _queue(places: Places, app: str) -> str:
    """The task queue that was chosen, or else the app's own on the embedded server."""
    chosen = places.task_queue or places.settings.task_queue
    own = places.address is None and chosen == DEFAULT_TASK_QUEUE
    return f"{DEFAULT_TASK_QUEUE}-{app}" if own else chosen


def _interval(text: str) -> timedelta:
    found = re.fullmatch(r"(\d+)([smhd])", text)
    if found is None or int(found[1]) == 0:
        raise InvalidRequestError(f"--every is {text!r}; write a number and s, m, h or d: 90m.")
    return timedelta(**{_UNITS[found[2]]: int(found[1])})


def _policy(text: str) -> ScheduleOverlapPolicy:
    try:
        return ScheduleOverlapPolicy[text.upper().replace("-", "_")]
    except KeyError:
        known = ", ".join(one.name.lower().replace("_", "-") for one in ScheduleOverlapPolicy)
        raise InvalidRequestError(f"--overlap is {text!r}; use one of {known}.") from None
