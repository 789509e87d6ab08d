"""The commands that run agents."""

from typing import Annotated, Literal

import typer

from durable_adk.cli.commands.declaration import command, group
from durable_adk.cli.commands.options import (
    ConnectionOptions,
    InvocationOptions,
    Json,
    Session,
    Target,
    Targets,
    User,
    WhenBusy,
)

schedule = group("Have Temporal start invocations at set times.")
Message = Annotated[
    str | None,
    typer.Argument(help="The user's message. Default: start a chat.", show_default=False),
]
Invocation = Annotated[str, typer.Argument(help="The invocation's id.", show_default=False)]
InSession = Annotated[str, typer.Option(help="The session's id.", show_default=False)]
Stream = Annotated[
    bool, typer.Option("--stream", help="Print the model's text while it is being written.")
]
Busy = Annotated[
    WhenBusy,
    typer.Option(
        help="While another invocation is active in the session: wait for it, fail, cancel it, or "
        "deliver the message to it."
    ),
]
PartsJson = Annotated[bool, typer.Option("--json", help="One part a line, as JSON.")]
Language = Annotated[
    Literal["mermaid", "svg"],
    typer.Option("--format", help="mermaid: text; svg: an image (extra drawing or web)."),
]
OpenInvocation = Annotated[
    str,
    typer.Argument(help="The invocation's id, or a unique beginning of it.", show_default=False),
]
BuildId = Annotated[
    str | None,
    typer.Option(
        envvar="DURABLE_ADK_BUILD_ID",
        help="Worker Versioning: the build id of this worker. Invocations stay on the build they "
        "started on.",
        show_default=False,
    ),
]
AutoUpgrade = Annotated[
    bool,
    typer.Option(
        "--auto-upgrade", help="With --build-id: move open invocations to the current build."
    ),
]
Dev = Annotated[bool, typer.Option("--dev", help="Accept a development server on another machine.")]
Port = Annotated[
    int | None,
    typer.Option(
        min=1,
        max=65535,
        help="Temporal's port. Default: that of the last start.",
        show_default=False,
    ),
]
UiPort = Annotated[
    int | None,
    typer.Option(
        min=1,
        max=65535,
        help="Serve Temporal's UI at this port. Any web page can read it by DNS rebinding. "
        "Default: no UI.",
        show_default=False,
    ),
]
Reload = Annotated[
    bool,
    typer.Option(
        "--reload/--no-reload",
        help="Load agents again when one of their .py, .env or root_agent.yaml files changes.",
    ),
]
Quiet = Annotated[
    bool, typer.Option("--quiet", help="Do not show messages, calls, results and errors of agents.")
]
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


@command("demo:demo", "data_dir")
def demo(connection: ConnectionOptions) -> None:
    """Watch an agent survive the SIGKILL of its worker.

    Starts a Temporal server, a worker and a session store on this machine, sends a message to the
    example agent, kills the worker while a tool runs, starts another worker, and prints what was
    recorded. No API key is needed; with GEMINI_API_KEY the agent uses Gemini.
    """


@command("run:run", "address", "store", "task_queue", "data_dir")
def run(
    connection: ConnectionOptions,
    target: Target,
    message: Message = None,
    *,
    user: User = "user",
    session: Session = None,
    as_json: Json = False,
    stream: Stream = False,
    when_busy: Busy = "enqueue",
) -> None:
    """Send a message to TARGET's agent and print the events, or chat with it.

    Starts a server and a worker for as long as the command runs, unless `durable-adk dev` runs in
    this folder, or --address names a Temporal that has workers. The invocation survives this
    command: `durable-adk attach` continues it.

    [bold]Examples[/bold]

      durable-adk run examples/capital_agent "What is the capital of France?"

      durable-adk run examples/capital_agent --session trips
    """


@command("run:attach", "address", "store", "task_queue", "data_dir")
def attach(
    connection: ConnectionOptions,
    target: Target,
    invocation: Invocation,
    *,
    session: InSession,
    user: User = "user",
    as_json: Json = False,
    stream: Stream = False,
) -> None:
    """Print all events of an invocation, from the first one until it ends.

    [bold]Example[/bold]

      durable-adk attach examples/capital_agent e-6f1c... --session trips
    """


@command("dev.serving:dev", "store", "task_queue", "data_dir", log_level="info", stopped=0)
def dev(
    connection: ConnectionOptions,
    targets: Targets,
    *,
    port: Port = None,
    ui_port: UiPort = None,
    reload: Reload = True,
    quiet: Quiet = False,
) -> None:
    """Serve TARGETS on this machine, show what happens, and reload changed code, until Ctrl-C.

    Keeps a Temporal server, a worker and a session store running. A folder of agents stands for all
    agents in it. A process that dies is started again. `durable-adk run` in the same folder uses
    them, and so can any Temporal client.

    Shows the beginning of each message, call, result and error, and what the agents' code prints.

    [bold]Examples[/bold]

      durable-adk dev examples/capital_agent

      durable-adk dev my_agents --ui-port 8233
    """


@command(
    "worker:worker",
    *("address", "store", "task_queue", "data_dir"),
    log_level="info",
    stopped=0,
)
def worker(
    connection: ConnectionOptions,
    targets: Targets,
    *,
    build_id: BuildId = None,
    auto_upgrade: AutoUpgrade = False,
    dev: Dev = False,
) -> None:
    """Run a worker for TARGETS on an existing Temporal, until Ctrl-C or SIGTERM.

    Temporal is at --address, else where the environment configuration of Temporal's SDKs says
    (TEMPORAL_ADDRESS, TEMPORAL_NAMESPACE, TEMPORAL_PROFILE, TLS, API key).

    [bold]Example[/bold]

      durable-adk worker my_agent other_agent --store shared/sessions.db
      durable-adk worker my_agent --build-id $(git rev-parse --short HEAD)
    """


@command("operations.check:check")
def check(target: Target, *, as_json: PartsJson = False) -> None:
    """Say where each part of TARGET's app runs, and what happens to it after a crash.

    Nothing of the app is run. The exit code is 1 if something is refused, or is not replay-safe;
    warnings do not change it.

    [bold]Example[/bold]

      durable-adk check examples/capital_agent
    """


@command("operations.graph:graph")
def graph(target: Target, *, language: Language = "mermaid") -> None:
    """Draw TARGET's graph, or its tree of agents: in Mermaid's language, or as SVG.

    GitHub, GitLab and many editors show Mermaid's texts as drawings. Nothing of the app is run.

    [bold]Examples[/bold]

      durable-adk graph examples/draft_review
      durable-adk graph examples/draft_review --format svg > review.svg
    """


@command("answer:cancel", "address", "store", "data_dir")
def cancel(
    connection: ConnectionOptions, options: InvocationOptions, invocation_id: OpenInvocation
) -> None:
    """Cancel an invocation that runs or waits; the events it has committed stay.

    [bold]Example[/bold]

      durable-adk cancel e-6f1c
    """


@schedule.command("create")
@command("schedule:create", "address", "task_queue", "data_dir")
def create(
    connection: ConnectionOptions,
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


@schedule.command("list")
@command("schedule:list_", "address", "data_dir")
def list_(connection: ConnectionOptions) -> None:
    """List the schedules: their times, what they send, and to whom."""


@schedule.command("pause")
@command("schedule:pause", "address", "data_dir")
def pause(connection: ConnectionOptions, name: Name) -> None:
    """Pause a schedule until it is resumed."""


@schedule.command("resume")
@command("schedule:resume", "address", "data_dir")
def resume(connection: ConnectionOptions, name: Name) -> None:
    """Resume a paused schedule."""


@schedule.command("trigger")
@command("schedule:trigger", "address", "data_dir")
def trigger(connection: ConnectionOptions, name: Name) -> None:
    """Start an invocation of a schedule now."""


@schedule.command("delete")
@command("schedule:delete", "address", "data_dir")
def delete(connection: ConnectionOptions, name: Name) -> None:
    """Delete a schedule; invocations that it has started continue."""
