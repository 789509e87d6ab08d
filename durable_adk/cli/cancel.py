"""``durable-adk cancel``: ends an invocation."""

import sys
from contextlib import aclosing, redirect_stdout
from typing import Annotated

import typer

from durable_adk.cli.execution import execute
from durable_adk.cli.options import (
    Address,
    AnySession,
    AnyUser,
    DataDir,
    Debug,
    Detach,
    Json,
    Serve,
    Store,
)
from durable_adk.cli.places import Places
from durable_adk.cli.reach import Scope, reach
from durable_adk.cli.terminal import EventPrinter
from durable_adk.cli.waiting import find_invocation
from durable_adk.client.feed import follow
from durable_adk.client.invocation_client import InvocationClient
from durable_adk.log import configure
from durable_adk.sessions.base_session_service import InvocationRecord
from durable_adk.sessions.session import SessionKey

InvocationId = Annotated[
    str,
    typer.Argument(help="The invocation's id, or the beginning of it alone.", show_default=False),
]


def cancel_command(
    invocation_id: InvocationId,
    *,
    target: Serve = None,
    user: AnyUser = None,
    session: AnySession = None,
    detach: Detach = False,
    as_json: Json = False,
    address: Address = None,
    store: Store = None,
    data_dir: DataDir = None,
    debug: Debug = False,
) -> None:
    """End an invocation that runs or waits; what it has committed stays.

    [bold]Example[/bold]

      durable-adk cancel e-6f1c
    """
    configure("warning")
    places = Places(address=address, store=store, data_dir=data_dir)
    printer = EventPrinter(as_json=as_json)

    async def work() -> None:
        with redirect_stdout(sys.stderr if as_json else sys.stdout):
            async with places.sessions(existing=True) as sessions:
                scope = await Scope.find(sessions, target, user=user, session=session)
                key, record = await find_invocation(sessions, scope.where, invocation_id)
            if record.status.closed:
                _tell_ended(record)
                return
            await _cancel(places, scope, key, record, None if detach else printer)

    execute(work(), debug=debug)


async def _cancel(
    places: Places,
    scope: Scope,
    key: SessionKey,
    record: InvocationRecord,
    printer: EventPrinter | None,
) -> None:
    async with (
        places.stores() as stores,
        reach(
            places, stores, record, app=scope.app, needs_worker=printer is not None
        ) as conversation,
    ):
        cursor, _ = await conversation.sessions.read_state(key)
        if not await conversation.cancel(key, record.invocation_id):
            _tell_ended(record)
        elif printer is not None:
            await _follow(conversation, key, record, cursor, printer)


async def _follow(
    conversation: InvocationClient,
    key: SessionKey,
    record: InvocationRecord,
    cursor: int,
    printer: EventPrinter,
) -> None:
    name = record.invocation_id
    run = await conversation.backend.attach(key, name, record)
    feed = follow(
        conversation.sessions,
        key,
        invocation_id=name,
        after=cursor,
        run=run,
        pauses=record.pauses,
    )
    async with aclosing(feed):
        async for stored in feed:
            printer.show(stored.event)


def _tell_ended(record: InvocationRecord) -> None:
    status = record.status.value if record.status.closed else "its workflow is closed"
    typer.echo(f"Invocation {record.invocation_id} had ended before: {status}.", err=True)
