"""``durable-adk attempts``: model calls without a response, and the tokens they used."""

import json
import sys
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated

import typer
from rich.console import Console
from rich.text import Text

from durable_adk.cli.connection import CliConnection
from durable_adk.cli.execution import command
from durable_adk.cli.pending import OneSession, OneUser, app_name
from durable_adk.cli.target import AnyTarget
from durable_adk.client.queries import InvocationFilter, find_invocations, read_attempts
from durable_adk.log import printable
from durable_adk.models.model_attempt import ModelAttempt
from durable_adk.sessions.session import SessionKey
from durable_adk.sessions.session_log import SessionLog

AttemptLines = Annotated[bool, typer.Option("--json", help="One attempt a line, as JSON.")]
OneInvocation = Annotated[
    str | None, typer.Option(help="Only this invocation.", show_default=False)
]


@dataclass(frozen=True)
class LocatedAttempt:
    """A model call without a response, with its session and its invocation."""

    key: SessionKey
    invocation_id: str
    attempt: ModelAttempt


@command("store", "data_dir")
async def attempts(
    connection: CliConnection,
    target: AnyTarget = None,
    *,
    user: OneUser = None,
    session: OneSession = None,
    invocation: OneInvocation = None,
    lines: AttemptLines = False,
) -> None:
    """List the model calls that failed, were cancelled or were lost, and the tokens they used.

    Reads the session store only. Successful calls are not listed: their tokens are on their events.

    [bold]Example[/bold]

      durable-adk attempts --user alice
    """
    async with connection.sessions(existing=True) as sessions:
        app = await app_name(sessions, target)
        where = InvocationFilter(app=app, user=user, session=session)
        found = await _find(sessions, where, invocation)
    if lines:
        for item in found:
            typer.echo(_as_json(item))
    else:
        _show(found)


async def _find(
    sessions: SessionLog, where: InvocationFilter, invocation: str | None
) -> list[LocatedAttempt]:
    """The attempts, those of the newest invocation first."""
    found = [
        (record.update_time, LocatedAttempt(key, record.invocation_id, attempt))
        async for key, record in find_invocations(sessions, where)
        if invocation in (None, record.invocation_id)
        for attempt in await read_attempts(sessions, key, record.invocation_id)
    ]
    found.sort(key=lambda one: one[0], reverse=True)
    return [one for _, one in found]


def _show(found: list[LocatedAttempt]) -> None:
    console = Console(file=sys.stdout, highlight=False, soft_wrap=True)
    for item in found:
        key, attempt = item.key, item.attempt
        console.print(Text(printable(_headline(attempt)), style="bold yellow"))
        rows = {
            "error": ": ".join(filter(None, [attempt.error_type, attempt.error_message])),
            "session": f"{key.session_id} of user {key.user_id}, app {key.app_name}",
            "event": attempt.event_id,
        }
        for label, text in rows.items():
            if text:
                console.print(Text.assemble((f"  {label:8}", "dim"), printable(text)))
    if not found:
        console.print("Every model call got a response.")
        return
    tokens = [item.attempt.tokens for item in found if item.attempt.tokens is not None]
    calls = "1 call" if len(found) == 1 else f"{len(found)} calls"
    unknown = f"; unknown for {len(found) - len(tokens)}" if len(tokens) < len(found) else ""
    console.print(f"{calls} without a response: {sum(tokens):,} tokens{unknown}.")


def _headline(attempt: ModelAttempt) -> str:
    words = [f"attempt {attempt.attempt} {attempt.ended}"]
    if attempt.model:
        words.append(f"model {attempt.model}")
    if attempt.started is not None:
        at = datetime.fromtimestamp(attempt.started, tz=UTC).astimezone()
        words.append(f"at {at:%Y-%m-%d %H:%M:%S}")
    if attempt.seconds is not None:
        words.append(f"after {attempt.seconds:.1f} s")
    words.append("tokens unknown" if attempt.tokens is None else f"{attempt.tokens:,} tokens")
    return ", ".join(words)


def _as_json(item: LocatedAttempt) -> str:
    key = item.key
    session = {"app": key.app_name, "user": key.user_id, "session": key.session_id}
    session["invocation"] = item.invocation_id
    return json.dumps(session | json.loads(item.attempt.to_json()), ensure_ascii=False)
