"""Commands that answer a pending call or cancel an invocation: ``approve`` and others."""

import asyncio
import shlex
import sys
from collections.abc import AsyncGenerator
from contextlib import aclosing, redirect_stdout

from durable_adk.apps.app import App
from durable_adk.cli.commands.options import InvocationOptions
from durable_adk.cli.execution import note
from durable_adk.cli.pending import (
    find_call,
    find_invocation,
    show_calls,
)
from durable_adk.cli.responses import (
    Response,
    approval,
    outcome,
    prompt_for_credential,
    rejection,
    require_kind,
)
from durable_adk.cli.server import ServerConnection, load_app
from durable_adk.cli.target import defines_app
from durable_adk.cli.terminal import EventPrinter, without_raised
from durable_adk.client.answers import SentAnswer
from durable_adk.client.feed import follow_changes
from durable_adk.client.queries import InvocationFilter, LocatedCall, pending_calls_of
from durable_adk.client.streaming import events_of
from durable_adk.conversation.answers import response_message
from durable_adk.events.event import Event
from durable_adk.sessions.records import InvocationRecord, StoredEvent
from durable_adk.sessions.session_log import SessionLog
from durable_adk.wire.messages import InvocationRequest


async def approve(
    connection: ServerConnection,
    options: InvocationOptions,
    call_id: str,
    *,
    payload: str | None,
) -> None:
    """Approve a tool call that waits for confirmation, and print the events that follow."""
    await _answer(connection, options, call_id, "confirmation", approval(payload))


async def reject(connection: ServerConnection, options: InvocationOptions, call_id: str) -> None:
    """Reject a tool call that waits for confirmation, and print the events that follow."""
    await _answer(connection, options, call_id, "confirmation", rejection)


async def respond(
    connection: ServerConnection, options: InvocationOptions, call_id: str, result: str
) -> None:
    """Send the result of a long-running tool call, and print the events that follow."""
    await _answer(connection, options, call_id, "long_running", outcome(result))


async def credential(
    connection: ServerConnection, options: InvocationOptions, call_id: str
) -> None:
    """Send the credential that a tool requests, and print the events that follow."""
    await _answer(connection, options, call_id, "credential", prompt_for_credential)


async def cancel(
    connection: ServerConnection, options: InvocationOptions, invocation_id: str
) -> None:
    """Cancel an invocation that runs or waits; its committed events remain."""
    printer = EventPrinter(as_json=options.as_json)
    with redirect_stdout(sys.stderr if options.as_json else sys.stdout):
        async with connection.sessions(existing=True) as sessions:
            where, app = await _scope(options, sessions)
            key, record = await find_invocation(sessions, where, invocation_id)
        if record.status.closed:
            _note_ended(record)
            return
        follows = not options.detach
        async with connection.invocation_client(record, app=app, needs_worker=follows) as client:
            cursor = await client.sessions.read_revision(key)
            if not await client.cancel(key, record.invocation_id):
                _note_ended(record)
                return
            if not follows:
                return
            changes = follow_changes(
                client.sessions,
                key,
                invocation_id=record.invocation_id,
                after=cursor,
                run=await client.backend.attach(key, record.invocation_id, record),
                pauses=record.pauses,
            )
            async with aclosing(changes):
                async for change in changes:
                    if isinstance(change, StoredEvent):
                        printer.show(change.event)


def _note_ended(record: InvocationRecord) -> None:
    status = record.status.value if record.status.closed else "its workflow is closed"
    note(f"Invocation {record.invocation_id} had already ended: {status}.")


async def _scope(
    options: InvocationOptions, sessions: SessionLog
) -> tuple[InvocationFilter, App | None]:
    """Return the scope of the search, and the app to serve in the meantime.

    Raises:
        AgentDefinitionError: The target is neither the name of an app nor defines one.
    """
    name, app = options.target, None
    if name is not None and defines_app(name, await sessions.list_apps()):
        app = load_app(name)
        name = app.name
    return InvocationFilter(app=name, user=options.user, session=options.session), app


async def _answer(
    connection: ServerConnection,
    options: InvocationOptions,
    call_id: str,
    kind: str,
    response: Response,
) -> None:
    """Answer a call, then print events until the invocation ends or pauses again."""
    printer = EventPrinter(as_json=options.as_json)
    # Agents may print; their output must not mix with the lines of JSON.
    with redirect_stdout(sys.stderr if options.as_json else sys.stdout):
        async with connection.sessions(existing=True) as sessions:
            where, app = await _scope(options, sessions)
            found = await find_call(sessions, where, call_id)
        require_kind(found.call, kind)
        message = response_message([(found.call, await response(found.call))])
        request = InvocationRequest.parse(
            {**found.key.ids(), "message": message, "create_session": False}
        )
        async with connection.invocation_client(found.record, app=app) as client:
            continuing = _continuing(found, connection, options)
            sent = SentAnswer(request=request, asked_by=found.call.invocation_id)
            events = events_of(client.answer(sent))
            await _follow(events, printer, options, continuing=continuing)
            if options.detach:
                note(f"Answer to {found.call.call_id} accepted.")
                return
            calls = await pending_calls_of(client.sessions, found.key, found.record.invocation_id)
            target = ["--target", options.target] if options.target else []
            show_calls(calls, options=[*connection.arguments, *target], file=sys.stderr)


async def _follow(
    events: AsyncGenerator[Event],
    printer: EventPrinter,
    options: InvocationOptions,
    *,
    continuing: str,
) -> None:
    """Print the events after an answer; with `detach`, only wait until the answer is accepted."""
    accepted = False
    try:
        async with aclosing(events):
            async for event in events if options.as_json else without_raised(events):
                accepted = True  # the first event is the answer itself
                if options.detach:
                    return
                if event.author != "user":
                    printer.show(event)
    except asyncio.CancelledError:
        unknown = "run `durable-adk pending` to see whether the answer was accepted."
        note(f"Interrupted; {continuing if accepted else unknown}")
        raise


def _continuing(
    found: LocatedCall, connection: ServerConnection, options: InvocationOptions
) -> str:
    """Return the message for a user who interrupts the command after the answer was accepted."""
    if options.target is None:
        return "the answer was accepted, and the invocation continues on its worker."
    key, name = found.key, found.record.invocation_id
    words = ["durable-adk", "attach", options.target, name, "--session", key.session_id]
    words += ["--user", key.user_id, *connection.arguments]
    return f"the answer was accepted. Continue with: {shlex.join(words)}"
