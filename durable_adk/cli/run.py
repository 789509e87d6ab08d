"""``durable-adk run`` and ``durable-adk attach``: invocations, and their events."""

import asyncio
import shlex
import sys
import uuid
from contextlib import redirect_stdout
from dataclasses import dataclass
from typing import Annotated

import typer

from durable_adk.cli.execution import execute, report
from durable_adk.cli.live import LivePrinter
from durable_adk.cli.options import (
    Address,
    DataDir,
    Debug,
    Json,
    Session,
    Store,
    Target,
    TaskQueue,
    User,
)
from durable_adk.cli.places import Places, load_app
from durable_adk.cli.questions import show_questions
from durable_adk.cli.terminal import EventPrinter, read_line
from durable_adk.cli.waiting import waiting_of
from durable_adk.errors import DurableAdkError
from durable_adk.json_values import check_id
from durable_adk.log import configure
from durable_adk.runners import Runner
from durable_adk.sessions.session import SessionKey
from durable_adk.wire.messages import WhenBusy
from durable_adk.wire.run_config import RunConfig, StreamingMode

Message = Annotated[
    str | None,
    typer.Argument(help="The user's message. Without one it is a chat.", show_default=False),
]
Invocation = Annotated[str, typer.Argument(help="The invocation's id.", show_default=False)]
InSession = Annotated[str, typer.Option(help="The session's id.", show_default=False)]
Stream = Annotated[
    bool, typer.Option("--stream", help="Show each answer's text while the model writes it.")
]
Busy = Annotated[
    WhenBusy,
    typer.Option(
        help="While another message is answered: wait, be refused, end that, or be heard by it."
    ),
]


def run_command(
    target: Target,
    message: Message = None,
    *,
    user: User = "user",
    session: Session = None,
    as_json: Json = False,
    stream: Stream = False,
    when_busy: Busy = WhenBusy.ENQUEUE,
    address: Address = None,
    store: Store = None,
    task_queue: TaskQueue = None,
    data_dir: DataDir = None,
    debug: Debug = False,
) -> None:
    """Send a message to TARGET's agent and print the events, or chat with it.

    Everything it takes is started and stopped here, unless `durable-adk dev` runs in this folder,
    or --address names a Temporal that has workers. An invocation survives this command:
    `durable-adk attach` goes on with it.

    [bold]Examples[/bold]

      durable-adk run examples/capital_agent "What is the capital of France?"

      durable-adk run examples/capital_agent --session trips
    """
    configure("warning")
    places = Places(address=address, store=store, task_queue=task_queue, data_dir=data_dir)
    conversation = Conversation(
        places=places,
        target=target,
        user=user,
        session=session or uuid.uuid4().hex[:12],
        as_json=as_json,
        stream=stream,
        when_busy=when_busy,
    )
    execute(conversation.hold(message), debug=debug)


def attach_command(
    target: Target,
    invocation: Invocation,
    *,
    session: InSession,
    user: User = "user",
    as_json: Json = False,
    stream: Stream = False,
    address: Address = None,
    store: Store = None,
    task_queue: TaskQueue = None,
    data_dir: DataDir = None,
    debug: Debug = False,
) -> None:
    """Print all events of an invocation that was started before, until it ends.

    [bold]Example[/bold]

      durable-adk attach examples/capital_agent e-6f1c... --session trips
    """
    configure("warning")
    places = Places(address=address, store=store, task_queue=task_queue, data_dir=data_dir)
    conversation = Conversation(
        places=places, target=target, user=user, session=session, as_json=as_json, stream=stream
    )
    execute(conversation.attach(invocation), debug=debug)


@dataclass(kw_only=True)
class Conversation:
    """A user's session with an app."""

    places: Places
    target: str
    user: str
    session: str
    as_json: bool
    stream: bool
    when_busy: WhenBusy = WhenBusy.ENQUEUE

    async def hold(self, message: str | None) -> None:
        """Send the message; without one, ask for them until the user has no more."""
        printer = self._start()
        app = load_app(self.target)
        # Agents may print; that must not get between our lines of JSON.
        with redirect_stdout(sys.stderr if self.as_json else sys.stdout):
            async with self.places.runner(app) as runner:
                if message is not None:
                    await self._turn(runner, message, printer)
                else:
                    await self._chat(runner, printer)

    async def attach(self, invocation: str) -> None:
        """Show an invocation's events, the user's first."""
        printer = self._start()
        invocation = check_id(invocation, "invocation")
        app = load_app(self.target)
        with redirect_stdout(sys.stderr if self.as_json else sys.stdout):
            async with self.places.runner(app) as runner:
                await self._follow(runner, None, invocation, printer)

    def _start(self) -> EventPrinter:
        self.user = check_id(self.user, "user")
        self.session = check_id(self.session, "session")
        _note(f"session {self.session} of user {self.user}")
        kind = LivePrinter if self.stream else EventPrinter
        return kind(as_json=self.as_json)

    def _run_config(self) -> RunConfig:
        mode = StreamingMode.SSE if self.stream else StreamingMode.NONE
        return RunConfig(streaming_mode=mode)

    async def _chat(self, runner: Runner, printer: EventPrinter) -> None:
        while True:
            message = await read_line("[user]: ")
            if message is None or message.strip() == "exit":
                return
            if not message.strip():
                continue
            try:
                await self._turn(runner, message, printer)
            except DurableAdkError as error:
                report(error, debug=False)  # the session is as good as before: go on

    async def _turn(self, runner: Runner, message: str, printer: EventPrinter) -> None:
        await self._follow(runner, message, f"e-{uuid.uuid4()}", printer)

    async def _follow(
        self, runner: Runner, message: str | None, invocation: str, printer: EventPrinter
    ) -> None:
        events = runner.run_async(
            user_id=self.user,
            session_id=self.session,
            new_message=message,
            invocation_id=invocation,
            run_config=self._run_config(),
            when_busy=self.when_busy,
            yield_user_message=message is None,
        )
        try:
            async for event in events:
                if self.stream or not event.partial:
                    printer.show(event)
        except asyncio.CancelledError:
            command = ["durable-adk", "attach", self.target, invocation, "--session", self.session]
            command += ["--user", self.user, *self.places.options]
            _note(f"Interrupted; the invocation is kept. Go on with: {shlex.join(command)}")
            raise
        await self._tell_what_waits(runner, invocation)

    async def _tell_what_waits(self, runner: Runner, invocation: str) -> None:
        key = SessionKey(runner.app_name, self.user, self.session)
        waiting = await waiting_of(runner.session_service, key, invocation)
        # When this command has ended, nothing runs the agent on an embedded server.
        serve = [] if self.places.address else ["--target", self.target]
        show_questions(waiting, options=[*serve, *self.places.options], file=sys.stderr)


def _note(text: str) -> None:
    typer.echo(text, err=True)  # beside the events, which are the output
