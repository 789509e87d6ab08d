"""``durable-adk pending``: the calls that wait for an answer."""

from dataclasses import replace
from typing import Annotated

import typer

from durable_adk.cli.execution import execute
from durable_adk.cli.options import AnySession, AnyTarget, AnyUser, DataDir, Debug, Store
from durable_adk.cli.places import Places, load_app
from durable_adk.cli.questions import as_json, show_questions
from durable_adk.cli.reach import is_code
from durable_adk.cli.waiting import Where, app_names, find_waiting
from durable_adk.log import configure

JsonLines = Annotated[bool, typer.Option("--json", help="One call a line, as JSON.")]


def pending_command(
    target: AnyTarget = None,
    *,
    user: AnyUser = None,
    session: AnySession = None,
    lines: JsonLines = False,
    store: Store = None,
    data_dir: DataDir = None,
    debug: Debug = False,
) -> None:
    """List the calls that wait for an answer, oldest first, and how to answer them.

    It reads the session store only: neither a Temporal nor the agent is needed.

    [bold]Example[/bold]

      durable-adk pending --user alice
    """
    configure("warning")
    places = Places(store=store, data_dir=data_dir)
    where = Where(user=user, session=session)
    execute(_list(places, target, where, lines=lines), debug=debug)


async def _list(places: Places, target: str | None, where: Where, *, lines: bool) -> None:
    options = list(places.options)
    async with places.sessions(existing=True) as sessions:
        if target is not None:
            known = await app_names(sessions)
            # The app's name is enough to list its calls; to answer them its code may be needed.
            where = replace(where, app=target if target in known else load_app(target).name)
            options += ["--target", target] if is_code(target, known) else []
        waiting = await find_waiting(sessions, where)
    if lines:
        for item in waiting:
            typer.echo(as_json(item))
    elif waiting:
        show_questions(waiting, options=options)
    else:
        typer.echo("Nothing waits for an answer.")
