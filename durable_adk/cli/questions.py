"""What a call that waits asks for, as people and as programs read it."""

import json
import shlex
import sys
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Any, TextIO

from rich.console import Console
from rich.text import Text

from durable_adk.cli.secret import asked_config
from durable_adk.cli.terminal import call_text
from durable_adk.cli.waiting import Waiting, short
from durable_adk.conversation.pending_calls import PendingCall
from durable_adk.log import printable

_LABEL = 9
"""Columns of the widest label."""


def tool_call(call: PendingCall) -> tuple[str, dict[str, Any] | None]:
    """The tool that it is about and its arguments; None: they are not told with the request."""
    match call.kind:
        case "confirmation":
            return call.original_name, call.args["originalFunctionCall"].get("args") or {}
        case "credential":
            return call.original_name, None
        case "long_running":
            return call.name, call.args


def show_questions(
    items: Sequence[Waiting],
    *,
    options: Sequence[str] = (),
    known: Sequence[str] = (),
    file: TextIO | None = None,
) -> None:
    """Write what is asked for, and the commands that answer it.

    Args:
        items: The calls.
        options: What the commands need to find the same places again.
        known: Ids of more calls, which a shortened id must not be mistaken for.
        file: Where to; None: standard output as it is now.
    """
    console = Console(file=file or sys.stdout, highlight=False, soft_wrap=True)
    names = [item.call.call_id for item in items]
    for item in items:
        console.print(Text(f"waits for {printable(_asked(item.call))}", style="bold yellow"))
        for label, text in _rows(item, short(item.call.call_id, [*names, *known]), options):
            line = (f"  {label:{_LABEL}}", "dim"), printable(text)
            console.print(Text.assemble(*line))


def as_json(item: Waiting) -> str:
    """A waiting call as one line of JSON."""
    key, call = item.key, item.call
    tool, arguments = tool_call(call)
    place = {"app": key.app_name, "user": key.user_id, "session": key.session_id}
    what = {"tool": tool, "arguments": arguments, "hint": _confirmation(call).get("hint")}
    told = {name: value for name, value in what.items() if value not in (None, "")}
    return json.dumps(place | told | json.loads(call.to_json()), ensure_ascii=False)


def _asked(call: PendingCall) -> str:
    tool, arguments = tool_call(call)
    match call.kind:
        case "confirmation":
            return f"approval of {call_text(tool, arguments)}"
        case "credential":
            return f"a credential for {tool}"
        case "long_running":
            return f"the result of {call_text(tool, arguments)}"


def _rows(item: Waiting, name: str, options: Sequence[str]) -> Iterator[tuple[str, str]]:
    key, call = item.key, item.call
    asked = _confirmation(call)
    if hint := asked.get("hint"):
        yield "hint", hint
    if call.kind == "credential" and (page := _consent_page(call)):
        yield "sign in", page
    at = datetime.fromtimestamp(call.asked_at, tz=UTC).astimezone()
    yield "asked", f"{at:%Y-%m-%d %H:%M:%S} by {call.author}"
    yield "where", f"app {key.app_name}, user {key.user_id}, session {key.session_id}"
    yield "", f"invocation {call.invocation_id}"
    yield "call", call.call_id
    for label, words in _commands(call, name, asked.get("payload")):
        yield label, shlex.join(["durable-adk", *words, *options])


def _commands(call: PendingCall, name: str, payload: Any) -> Iterator[tuple[str, list[str]]]:
    match call.kind:
        case "confirmation":
            filled = [] if payload is None else ["--payload", json.dumps(payload)]
            yield "approve", ["approve", name, *filled]
            yield "reject", ["reject", name]
        case "credential":
            yield "answer", ["credential", name]
        case "long_running":
            yield "answer", ["respond", name, '{"result": "..."}']


def _confirmation(call: PendingCall) -> dict[str, Any]:
    return call.args.get("toolConfirmation", {}) if call.kind == "confirmation" else {}


def _consent_page(call: PendingCall) -> str | None:
    credential = asked_config(call).exchanged_auth_credential
    return credential.oauth2.auth_uri if credential and credential.oauth2 else None
