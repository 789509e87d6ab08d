"""``durable-adk run`` and ``attach``: start and follow invocations."""

import asyncio
import shlex
import sys
import uuid
from contextlib import redirect_stdout
from dataclasses import dataclass
from typing import Annotated

import typer

from durable_adk.cli.execution import command, note, report
from durable_adk.cli.pending import show_calls
from durable_adk.cli.server import ServerConnection, load_app
from durable_adk.cli.target import Target
from durable_adk.cli.terminal import EventPrinter, Json, LivePrinter, Session, User, read_line
from durable_adk.client.queries import pending_calls_of
from durable_adk.errors import DurableAdkError
from durable_adk.json_values import check_id
from durable_adk.runners import Runner
from durable_adk.sessions.session import SessionKey
from durable_adk.wire.messages import WhenBusy
from durable_adk.wire.run_config import RunConfig, StreamingMode

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


@command("address", "store", "task_queue", "data_dir")
async def run(
    connection: ServerConnection,
    target: Target,
    message: Message = None,
    *,
    user: User = "user",
    session: Session = None,
    as_json: Json = False,
    stream: Stream = False,
    when_busy: Busy = WhenBusy.ENQUEUE,
) -> None:
    """Send a message to TARGET's agent and print the events, or chat with it.

    Starts a server and a worker for as long as the command runs, unless `durable-adk dev` runs in
    this folder, or --address names a Temporal that has workers. The invocation survives this
    command: `durable-adk attach` continues it.

    [bold]Examples[/bold]

      durable-adk run examples/capital_agent "What is the capital of France?"

      durable-adk run examples/capital_agent --session trips
    """
    chat = Chat(
        connection=connection,
        target=target,
        user=check_id(user, "user"),
        session=check_id(session or uuid.uuid4().hex[:12], "session"),
        as_json=as_json,
        stream=stream,
        when_busy=when_busy,
    )
    await chat.run(message)


@command("address", "store", "task_queue", "data_dir")
async def attach(
    connection: ServerConnection,
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
    chat = Chat(
        connection=connection,
        target=target,
        user=check_id(user, "user"),
        session=check_id(session, "session"),
        as_json=as_json,
        stream=stream,
    )
    await chat.attach(check_id(invocation, "invocation"))


@dataclass(kw_only=True)
class Chat:
    """A user's session with an app, on the terminal."""

    connection: ServerConnection
    target: str
    user: str
    session: str
    as_json: bool
    stream: bool
    when_busy: WhenBusy = WhenBusy.ENQUEUE

    async def run(self, message: str | None) -> None:
        """Send the message; without one, read messages until the user types ``exit``."""
        printer = self._printer()
        app = load_app(self.target)
        # Agents may print; their text must not get between our lines of JSON.
        with redirect_stdout(sys.stderr if self.as_json else sys.stdout):
            async with self.connection.runner(app) as runner:
                if message is not None:
                    await self._send(runner, message, printer)
                else:
                    await self._chat(runner, printer)

    async def attach(self, invocation: str) -> None:
        """Print an invocation's events, beginning with the user's."""
        printer = self._printer()
        app = load_app(self.target)
        with redirect_stdout(sys.stderr if self.as_json else sys.stdout):
            async with self.connection.runner(app) as runner:
                await self._follow(runner, None, invocation, printer)

    def _printer(self) -> EventPrinter:
        note(f"session {self.session} of user {self.user}")
        kind = LivePrinter if self.stream else EventPrinter
        return kind(as_json=self.as_json)

    async def _chat(self, runner: Runner, printer: EventPrinter) -> None:
        while True:
            message = await read_line("[user]: ")
            if message is None or message.strip() == "exit":
                return
            if not message.strip():
                continue
            try:
                await self._send(runner, message, printer)
            except DurableAdkError as error:
                report(error, debug=False)  # the session is intact, so the chat continues

    async def _send(self, runner: Runner, message: str, printer: EventPrinter) -> None:
        await self._follow(runner, message, f"e-{uuid.uuid4()}", printer)

    async def _follow(
        self, runner: Runner, message: str | None, invocation: str, printer: EventPrinter
    ) -> None:
        mode = StreamingMode.SSE if self.stream else StreamingMode.NONE
        events = runner.run_async(
            user_id=self.user,
            session_id=self.session,
            new_message=message,
            invocation_id=invocation,
            run_config=RunConfig(streaming_mode=mode),
            when_busy=self.when_busy,
            yield_user_message=message is None,
        )
        try:
            async for event in events:
                if self.stream or not event.partial:
                    printer.show(event)
        except asyncio.CancelledError:
            words = ["durable-adk", "attach", self.target, invocation, "--session", self.session]
            words += ["--user", self.user, *self.connection.arguments]
            note(f"Interrupted; the invocation is kept. Continue with: {shlex.join(words)}")
            raise
        key = SessionKey(runner.app_name, self.user, self.session)
        calls = await pending_calls_of(runner.session_service, key, invocation)
        # When this command has ended, no worker runs the agent on an embedded server.
        serve = [] if self.connection.address else ["--target", self.target]
        show_calls(calls, options=[*serve, *self.connection.arguments], file=sys.stderr)
