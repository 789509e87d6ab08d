"""``durable-adk run`` and ``attach``: start and follow invocations."""

import asyncio
import shlex
import sys
import time
import uuid
from collections.abc import AsyncGenerator, Sequence
from contextlib import (
    AsyncExitStack,
    aclosing,
    asynccontextmanager,
    nullcontext,
    redirect_stdout,
    suppress,
)
from dataclasses import dataclass
from typing import Self

import typer
from google.genai import types
from rich.console import Console
from rich.status import Status
from rich.text import Text

from durable_adk.cli.dev.state import apps_of_dev
from durable_adk.cli.execution import note, report
from durable_adk.cli.pending import pick, show_calls
from durable_adk.cli.responses import (
    approval,
    outcome,
    prompt_for_credential,
    rejection,
    require_kind,
)
from durable_adk.cli.server import ServerConnection, load_app
from durable_adk.cli.target import defines_app
from durable_adk.cli.terminal import (
    EventPrinter,
    LivePrinter,
    busy,
    is_interactive,
    read_line,
    restored_terminal,
    without_raised,
)
from durable_adk.client.queries import (
    InvocationFilter,
    LocatedCall,
    find_pending_calls,
    pending_calls_of,
    read_attempts,
    read_unfinished,
)
from durable_adk.conversation.answers import response_message
from durable_adk.errors import DurableAdkError, InvalidRequestError
from durable_adk.events.event import Event
from durable_adk.json_values import check_id
from durable_adk.log import printable
from durable_adk.runners import Runner
from durable_adk.sessions.call_attempt import AttemptEnd, CallAttempt
from durable_adk.sessions.session import SessionKey
from durable_adk.sessions.session_log import SessionLog
from durable_adk.wire.messages import WhenBusy
from durable_adk.wire.run_config import RunConfig, StreamingMode

ANSWERS = {
    "/approve": "confirmation",
    "/reject": "confirmation",
    "/respond": "long_running",
    "/credential": "credential",
}
"""Chat commands that answer a call, and the kind of the call."""
WORDS = {
    "/approve": "[CALL] [JSON]  approve a tool call, with the values that it asks for",
    "/reject": "[CALL]         reject a tool call",
    "/respond": "[CALL] JSON    give the result of a long-running tool, or answer a question",
    "/credential": "[CALL]         type the credential that a tool requests",
    "/pending": "               list the calls that wait for an answer",
    "/help": "               list these words",
    "/exit": "               end the chat; Ctrl-D does, too",
}
"""The chat's commands; CALL is needed if several calls wait."""
_TICK = 0.5  # seconds between two updates of the progress line


async def run(
    connection: ServerConnection,
    target: str,
    message: str | None,
    *,
    user: str,
    session: str | None,
    as_json: bool,
    stream: bool,
    when_busy: str,
) -> None:
    """Send a message to TARGET's agent and print the events, or chat with it."""
    chat = Chat(
        connection=connection,
        target=target,
        user=check_id(user, "user"),
        session=check_id(session or uuid.uuid4().hex[:12], "session"),
        as_json=as_json,
        stream=stream,
        when_busy=WhenBusy(when_busy),
    )
    await chat.run(message)


async def attach(
    connection: ServerConnection,
    target: str,
    invocation: str,
    *,
    session: str,
    user: str,
    as_json: bool,
    stream: bool,
) -> None:
    """Print all events of an invocation, from the first one until it ends."""
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
    _chats: bool = False

    async def run(self, message: str | None) -> None:
        """Send the message; without one, read messages until the user types ``exit``."""
        async with self._runner() as runner:
            if message is not None:
                await self._send(runner, message)
            else:
                self._chats = True
                with restored_terminal() if is_interactive() else nullcontext():
                    await self._chat(runner)

    async def attach(self, invocation: str) -> None:
        """Print an invocation's events, from the user's message on."""
        async with self._runner() as runner:
            events = runner.run_async(
                user_id=self.user,
                session_id=self.session,
                invocation_id=invocation,
                yield_user_message=True,
            )
            await self._follow(runner, events, invocation)

    @asynccontextmanager
    async def _runner(self) -> AsyncGenerator[Runner]:
        kind = LivePrinter if self.stream else EventPrinter
        self._printer = kind(as_json=self.as_json)
        if not defines_app(self.target, self.connection.targets):
            self.target = self.connection.targets[self.target]  # an app that `dev` serves
        app = load_app(self.target)
        note(f"session {self.session} of user {self.user}")
        self.connection.record_target(app.name, self.target)
        # Agents may print; their output must not mix with the lines of JSON.
        with redirect_stdout(sys.stderr if self.as_json else sys.stdout):
            async with AsyncExitStack() as stack:
                with busy("starting a Temporal server and a worker"):
                    runner = await stack.enter_async_context(self.connection.runner(app))
                yield runner

    async def _chat(self, runner: Runner) -> None:
        if is_interactive():
            note("/help lists what can be typed besides messages")
        while True:
            text = await read_line("[user]: ")
            if text is None or text.strip() in ("exit", "/exit"):
                return
            try:
                await self._handle_line(runner, text.strip())
            except Exception as error:  # noqa: BLE001 - includes errors of the agent's code
                report(error, debug=False)  # the session is intact, so the chat continues

    async def _handle_line(self, runner: Runner, text: str) -> None:
        """Send a message, or execute a line that begins with a slash."""
        word, _, rest = text.partition(" ")
        if word == "/help":
            for name, meaning in WORDS.items():
                typer.echo(f"  {name:<12}{meaning}")
        elif word == "/pending":
            where = InvocationFilter(app=runner.app_name, user=self.user, session=self.session)
            calls = await find_pending_calls(runner.session_service, where)
            self._show_calls(calls)
            if not calls:
                typer.echo("No calls are waiting for an answer.")
        elif word in ANSWERS:
            await self._answer(runner, word, rest.strip())
        elif word.startswith("/") and not word.startswith("//"):
            raise InvalidRequestError(
                f"{word} is none of {', '.join(WORDS)}; a message that begins with a slash is "
                "written with two."
            )
        elif text:
            message = text.removeprefix("/") if text.startswith("//") else text
            await self._send(runner, message)

    async def _answer(self, runner: Runner, word: str, rest: str) -> None:
        """Answer a pending call: the named one, else the only one of its kind."""
        kind, named = ANSWERS[word], rest and not rest.startswith(("{", "["))
        start, _, value = rest.partition(" ") if named else ("", "", rest)
        calls = await runner.pending(user_id=self.user, session_id=self.session)
        key = SessionKey(runner.app_name, self.user, self.session)
        fitting = [call for call in calls if start or call.kind == kind]
        if not start and len(fitting) != 1:
            names = ", ".join(call.call_id for call in fitting)
            raise InvalidRequestError(
                f"Several calls wait; name one of them: {names}."
                if names
                else f"No call waits for {word}; /pending lists the calls that wait."
            )
        call = pick(
            ((one.call_id, key, one) for one in fitting), start or fitting[0].call_id, "call"
        )
        require_kind(call, kind)
        make = {"/approve": approval(value or None), "/reject": rejection}.get(word)
        make = make or (prompt_for_credential if kind == "credential" else outcome(value))
        await self._send(runner, response_message([(call, await make(call))]), call.invocation_id)

    async def _send(
        self, runner: Runner, message: str | types.Content, answered: str | None = None
    ) -> None:
        """Send a message, or an answer to a call, and print the events that follow."""
        mode = StreamingMode.SSE if self.stream else StreamingMode.NONE
        name = f"e-{uuid.uuid4()}"
        events = runner.run_async(
            user_id=self.user,
            session_id=self.session,
            new_message=message,
            invocation_id=None if answered else name,
            run_config=RunConfig(streaming_mode=mode),
            when_busy=self.when_busy,
        )
        await self._follow(runner, events, answered or name)

    async def _follow(
        self, runner: Runner, events: AsyncGenerator[Event, None], invocation: str
    ) -> None:
        key = SessionKey(runner.app_name, self.user, self.session)
        progress = Progress(
            runner.session_service,
            key,
            invocation,
            idle="the model is thinking" if runner.app.is_agent else "the graph runs",
        )
        try:
            async with progress, aclosing(events):
                async for event in events if self.as_json else without_raised(events):
                    progress.on_event(event)
                    if self.stream or not event.partial:
                        self._printer.show(event)
        except asyncio.CancelledError:
            words = ["durable-adk", "attach", self.target, invocation, "--session", self.session]
            words += ["--user", self.user, *self.connection.arguments]
            note(f"Interrupted; the invocation is kept. Continue with: {shlex.join(words)}")
            raise
        self._show_calls(await pending_calls_of(runner.session_service, key, invocation))
        for one in await read_unfinished(runner.session_service, key, invocation):
            note(f"Warning: {one.reason}")

    def _show_calls(self, calls: Sequence[LocatedCall]) -> None:
        """Write the requests of pending calls, and how to answer them."""
        # After this command has ended, only `dev` runs the agent on an embedded server.
        served = apps_of_dev(self.connection.data_folder)
        elsewhere = self.connection.address or any(one.key.app_name in served for one in calls)
        serve = [] if elsewhere else ["--target", self.target]
        options = [*serve, *self.connection.arguments]
        show_calls(calls, options=options, in_chat=self._chats, file=sys.stderr)


class Progress:
    """A line on the terminal that shows what an invocation waits for, and for how long.

    It appears after a second without events, and disappears before the next event is printed.
    """

    def __init__(
        self,
        sessions: SessionLog,
        key: SessionKey,
        invocation_id: str,
        *,
        idle: str = "the model is thinking",
    ) -> None:
        self._idle = idle
        console = Console(stderr=True)
        self._status = console.status("") if console.is_terminal else None
        self._sessions = sessions
        self._name = (key, invocation_id)
        self._calls: dict[str | None, str | None] = {}
        self._committed = set[str]()
        self._since = time.monotonic()
        self._partial = False
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        if self._status is not None:
            self._task = asyncio.create_task(self._show(self._status))
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        if self._status is not None:
            self._status.stop()

    def on_event(self, event: Event) -> None:
        """Remove the line, because an event has arrived."""
        if self._status is not None:
            self._status.stop()
        self._since, self._partial = time.monotonic(), bool(event.partial)
        if not event.partial:
            self._committed.add(event.id)
            self._calls |= {call.id: call.name for call in event.get_function_calls()}
            for response in event.get_function_responses():
                self._calls.pop(response.id, None)

    async def _show(self, status: Status) -> None:
        while True:
            await asyncio.sleep(_TICK)
            waited = time.monotonic() - self._since
            if waited >= 1 and not self._partial:  # else the cursor is after unfinished text
                with suppress(DurableAdkError):
                    status.update(Text(printable(f"{await self.text()}, {waited:.0f} s"), "dim"))
                    status.start()

    async def text(self) -> str:
        """Return what the invocation waits for."""
        if not self._calls and await self._sessions.get_invocation(*self._name) is None:
            return "waiting for a worker, or for an earlier message"
        failed = await read_attempts(self._sessions, *self._name)
        if self._calls:
            last = {one.call_id: one for one in failed}
            return ", ".join(
                f"{name or ''} runs" + (f" again{_why(last[id_])}" if id_ in last else "")
                for id_, name in self._calls.items()
            )
        model_attempts = [
            one for one in failed if not one.tool and one.event_id not in self._committed
        ]
        if not model_attempts:
            return self._idle
        return f"the model is called again{_why(model_attempts[-1])}"


def _why(last: CallAttempt) -> str:
    """Return why a call is repeated: how its last attempt ended."""
    ended = "failed" if last.ended is AttemptEnd.FAILED else f"was {last.ended}"
    reason = ": ".join(filter(None, [last.error_type, last.error_message]))
    return f", as attempt {last.attempt} {ended}" + (f" ({reason})" if reason else "")
