"""``durable-adk attempts``: the model calls that gave no answer, and what they cost."""

import json
import sys
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Annotated

import typer
from rich.console import Console
from rich.text import Text

from durable_adk.cli.execution import execute
from durable_adk.cli.options import AnySession, AnyTarget, AnyUser, DataDir, Debug, Store
from durable_adk.cli.places import Places, load_app
from durable_adk.cli.waiting import Where, app_names, invocations
from durable_adk.client.attempts import read_attempts
from durable_adk.log import configure, printable
from durable_adk.models.model_attempt import ModelAttempt
from durable_adk.sessions.session import SessionKey
from durable_adk.sessions.sql_session_service import DatabaseSessionService

JsonLines = Annotated[bool, typer.Option("--json", help="One attempt a line, as JSON.")]
Invocation = Annotated[
    str | None, typer.Option(help="Only of this invocation.", show_default=False)
]


@dataclass(frozen=True)
class Found:
    """An attempt, and whose it was."""

    key: SessionKey
    invocation_id: str
    attempt: ModelAttempt


def attempts_command(
    target: AnyTarget = None,
    *,
    user: AnyUser = None,
    session: AnySession = None,
    invocation: Invocation = None,
    lines: JsonLines = False,
    store: Store = None,
    data_dir: DataDir = None,
    debug: Debug = False,
) -> None:
    """List the model calls that failed, were cancelled or got lost, and their tokens.

    It reads the session store only. Calls that gave an answer are not listed: their tokens are on
    the events of their answers.

    [bold]Example[/bold]

      durable-adk attempts --user alice
    """
    configure("warning")
    places = Places(store=store, data_dir=data_dir)
    where = Where(user=user, session=session)
    execute(_list(places, target, where, invocation, lines=lines), debug=debug)


async def _list(
    places: Places, target: str | None, where: Where, invocation: str | None, *, lines: bool
) -> None:
    async with places.sessions(existing=True) as sessions:
        if target is not None:
            known = await app_names(sessions)
            where = replace(where, app=target if target in known else load_app(target).name)
        found = await _find(sessions, where, invocation)
    if lines:
        for item in found:
            typer.echo(_as_json(item))
    else:
        _show(found)


async def _find(
    sessions: DatabaseSessionService, where: Where, invocation: str | None
) -> list[Found]:
    """The attempts, those of the newest invocation first."""
    found = [
        (record.update_time, Found(key, record.invocation_id, attempt))
        async for key, record in invocations(sessions, where)
        if invocation in (None, record.invocation_id)
        for attempt in await read_attempts(sessions, key, record.invocation_id)
    ]
    found.sort(key=lambda one: one[0], reverse=True)
    return [one for _, one in found]


def _show(found: list[Found]) -> None:
    console = Console(file=sys.stdout, highlight=False, soft_wrap=True)
    for item in found:
        attempt = item.attempt
        console.print(Text(printable(_headline(attempt)), style="bold yellow"))
        reason = ": ".join(filter(None, [attempt.error_type, attempt.error_message]))
        key = item.key
        place = f"app {key.app_name}, user {key.user_id}, session {key.session_id}"
        rows = {"why": reason, "where": place, "answer": attempt.event_id}
        for label, text in rows.items():
            if text:
                console.print(Text.assemble((f"  {label:8}", "dim"), printable(text)))
    tokens = [item.attempt.tokens for item in found if item.attempt.tokens is not None]
    unknown = len(found) - len(tokens)
    if found:
        console.print(f"{len(found)} in vain: {sum(tokens):,} tokens, and {unknown} unknown.")
    else:
        console.print("Every model call gave an answer.")


def _headline(attempt: ModelAttempt) -> str:
    words = [f"attempt {attempt.attempt} {attempt.ended}"]
    if attempt.model:
        words.append(f"of {attempt.model}")
    if attempt.started is not None:
        at = datetime.fromtimestamp(attempt.started, tz=UTC).astimezone()
        words.append(f"at {at:%Y-%m-%d %H:%M:%S}")
    if attempt.seconds is not None:
        words.append(f"after {attempt.seconds:.1f} s")
    words.append("tokens unknown" if attempt.tokens is None else f"{attempt.tokens:,} tokens")
    return ", ".join(words)


def _as_json(item: Found) -> str:
    key = item.key
    place = {"app": key.app_name, "user": key.user_id, "session": key.session_id}
    place["invocation"] = item.invocation_id
    return json.dumps(place | json.loads(item.attempt.to_json()), ensure_ascii=False)
