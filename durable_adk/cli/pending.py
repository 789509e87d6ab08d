"""``durable-adk pending``: lists pending calls; also finds calls and invocations by id."""

import json
import shlex
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TextIO, TypeVar

import typer

from durable_adk.auth.auth_tool import AuthConfig
from durable_adk.cli.connection import CliConnection
from durable_adk.cli.dev.state import apps_of_dev
from durable_adk.cli.target import defines_app, load_target
from durable_adk.cli.terminal import call_text, compact, local_time, print_heading, print_rows
from durable_adk.client.queries import (
    InvocationFilter,
    LocatedCall,
    find_invocations,
    find_pending_calls,
)
from durable_adk.conversation.client_requests import shown_request
from durable_adk.conversation.nodes.schema_example import schema_example
from durable_adk.conversation.pending_calls import PendingCall
from durable_adk.errors import InvalidRequestError
from durable_adk.events.request_input import REQUEST_INPUT
from durable_adk.sessions.records import OPEN, InvocationRecord, Status
from durable_adk.sessions.session import SessionKey
from durable_adk.sessions.session_log import SessionLog
from durable_adk.tools.require_confirmation import is_runtime_hint

SHORTEST = 12
"""Minimum characters of a shortened id."""

T = TypeVar("T")


async def pending(
    connection: CliConnection,
    target: str | None,
    *,
    user: str | None,
    session: str | None,
    lines: bool,
) -> None:
    """List the calls that wait for an answer, oldest first, and the commands that answer them."""
    options = list(connection.arguments)
    async with connection.sessions(existing=True) as sessions:
        if target is not None and defines_app(target, await sessions.list_apps()):
            options += ["--target", target]
        app = await app_name(sessions, target)
        where = InvocationFilter(app=app, user=user, session=session)
        calls = await find_pending_calls(sessions, where)
    if lines:
        for item in calls:
            typer.echo(as_json(item))
    elif calls:
        served = apps_of_dev(connection.data_folder)
        origins = {app: origin for app, origin in connection.targets.items() if app not in served}
        show_calls(calls, options=options, targets={} if target else origins)
    else:
        typer.echo("No calls are waiting for an answer.")


async def app_name(sessions: SessionLog, target: str | None) -> str | None:
    """Return the name of an app in the store, or of the app that a target defines.

    Raises:
        AgentDefinitionError: The target is neither.
    """
    if target is None or target in await sessions.list_apps():
        return target
    return load_target(target).name


async def find_invocation(
    sessions: SessionLog, where: InvocationFilter, start: str
) -> tuple[SessionKey, InvocationRecord]:
    """Return the one invocation whose id is `start` or begins with it; prefer open ones.

    Raises:
        InvalidRequestError: No invocation matches, or several do.
    """
    found = await _beginning(sessions, where, start, OPEN)
    found = found or await _beginning(sessions, where, start, ())
    return pick(((name, key, one) for (key, name), one in found.items()), start, "invocation")


async def _beginning(
    sessions: SessionLog, where: InvocationFilter, start: str, statuses: Collection[Status]
) -> dict[tuple[SessionKey, str], tuple[SessionKey, InvocationRecord]]:
    """Return the invocations whose ids begin with `start`; none if it is empty."""
    return {
        (key, record.invocation_id): (key, record)
        async for key, record in find_invocations(sessions, where, statuses=statuses)
        if start and record.invocation_id.startswith(start)
    }


async def find_call(sessions: SessionLog, where: InvocationFilter, start: str) -> LocatedCall:
    """Return the one pending call whose id is `start` or begins with it.

    Raises:
        InvalidRequestError: No call matches, or several do.
    """
    calls = await find_pending_calls(sessions, where)
    if not any(item.call.call_id.startswith(start) for item in calls):
        raise InvalidRequestError(
            f"No pending call has an id that begins with {start!r}; `durable-adk pending` lists "
            "those that wait. A request in a session that was copied from google-adk is not among "
            "them: send a message instead, so that the tool asks again."
        )
    return pick(((item.call.call_id, item.key, item) for item in calls), start, "pending call")


def pick(items: Iterable[tuple[str, SessionKey, T]], start: str, what: str) -> T:
    """Return the one item whose id is `start`, else the one whose id begins with it.

    Several of one session with the same id are in order; the last one is returned.

    Args:
        items: Each with its id and session.
        start: The user's input.
        what: The kind of item, for error messages.

    Raises:
        InvalidRequestError: No item matches, or several do.
    """
    known = list(items)
    exact = [item for item in known if item[0] == start]
    hits = exact or [item for item in known if start and item[0].startswith(start)]
    if len(hits) == 1:
        return hits[0][2]
    if hits and len({(name, key) for name, key, _ in hits}) == 1:
        return hits[-1][2]  # of the questions of nodes with one id the newest, as everywhere
    if not hits:
        raise InvalidRequestError(f"No {what} has an id that begins with {start!r}.")
    if len({name for name, _, _ in hits}) == 1:
        sessions = ", ".join(f"{key.session_id!r} of user {key.user_id!r}" for _, key, _ in hits)
        raise InvalidRequestError(
            f"{hits[0][0]!r} is the id of a {what} in sessions {sessions}; select one with "
            "--session, --user or --target."
        )
    names = ", ".join(name for name, _, _ in hits)
    raise InvalidRequestError(f"Several ids begin with {start!r} ({names}); type more of it.")


def short(name: str, names: Sequence[str]) -> str:
    """Return the shortest prefix of an id that no other id has."""
    others = set(names) - {name}
    for length in range(min(SHORTEST, len(name)), len(name)):
        if not any(other.startswith(name[:length]) for other in others):
            return name[:length]
    return name


def show_calls(
    items: Sequence[LocatedCall],
    *,
    options: Sequence[str],
    targets: Mapping[str, str] | None = None,
    in_chat: bool = False,
    file: TextIO | None = None,
) -> None:
    """Write each call's request, and the commands that answer it.

    Args:
        items: The calls.
        options: Options with which the commands reach the same store and Temporal.
        targets: Targets of the apps that may have no other worker, by name.
        in_chat: Whether to add the chat's commands.
        file: Destination; None: the current standard output.
    """
    names = [item.call.call_id for item in items]
    for item in items:
        print_heading(f"waiting for {_request(item.call)}", style="bold yellow", file=file)
        name = short(item.call.call_id, names)
        found = (targets or {}).get(item.key.app_name)
        serve = ["--target", _relative(found)] if found else []
        print_rows(_rows(item, name, [*options, *serve]), file=file)
        if in_chat:
            words = {"confirmation": "/approve or /reject", "credential": "/credential"}
            print_rows([("here", words.get(item.call.kind, "/respond JSON"))], file=file)


def _relative(target: str) -> str:
    """Return a path relative to the current folder, if it is below."""
    path = Path(target)
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else target


def as_json(item: LocatedCall) -> str:
    """Return a pending call as one line of JSON."""
    key, call = item.key, item.call
    tool, arguments = _tool_call(call)
    details = {"tool": tool, "arguments": arguments, "hint": _confirmation(call).get("hint")}
    shown = {name: value for name, value in details.items() if value not in (None, "")}
    return json.dumps(key.ids() | shown | json.loads(call.to_json()), ensure_ascii=False)


def auth_config(call: PendingCall) -> AuthConfig:
    """Return the configuration in a credential request; it contains no secret."""
    return AuthConfig.model_validate(call.args.get("authConfig"))


def is_question(call: PendingCall) -> bool:
    """Return whether a node of a graph asks a person, rather than a tool for its result."""
    return call.name == REQUEST_INPUT and "interruptId" in call.args


def _tool_call(call: PendingCall) -> tuple[str, dict[str, Any] | None]:
    """Return the tool's name and arguments; a credential request has no arguments."""
    match call.kind:
        case "confirmation":
            return call.original_name, call.args["originalFunctionCall"].get("args") or {}
        case "credential":
            return call.original_name, None
        case "long_running":
            return call.name, call.args


def _request(call: PendingCall) -> str:
    tool, arguments = _tool_call(call)
    match call.kind:
        case "confirmation":
            return f"approval of {call_text(tool, arguments)}"
        case "credential":
            return f"a credential for {tool}"
        case "long_running" if is_question(call):
            return f"an answer: {call.args.get('message') or 'no message'}"
        case "long_running":
            return f"the result of {call_text(tool, arguments)}"


def _rows(item: LocatedCall, name: str, options: Sequence[str]) -> Iterator[tuple[str, str]]:
    key, call = item.key, item.call
    requested = _confirmation(call)
    hint = requested.get("hint")
    if hint and not is_runtime_hint(hint, call.original_name or call.name):
        yield "hint", hint
    if is_question(call):
        payload, schema = call.args.get("payload"), call.args.get("response_schema")
        yield "payload", "" if payload is None else compact(payload)
        yield "schema", "" if schema is None else compact(schema)
    if call.kind == "credential" and (page := _consent_page(call)):
        yield "sign in", page
    yield "requested", f"{local_time(call.requested_at)} by {call.author}"
    if call.deadline is not None:
        yield "deadline", local_time(call.deadline)
    yield "session", f"{key.session_id} of user {key.user_id}, app {key.app_name}"
    yield "", f"invocation {call.invocation_id}"
    yield "call", call.call_id
    for label, words in _commands(call, name, requested.get("payload")):
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
            yield "answer", ["respond", name, json.dumps(_answer(call), ensure_ascii=False)]


def _answer(call: PendingCall) -> Any:
    """Return an example of the answer."""
    if not is_question(call) or call.args.get("response_schema") is None:
        return {"result": "..."}
    return schema_example(shown_request(call.name, call.args)["responseSchema"])


def _confirmation(call: PendingCall) -> dict[str, Any]:
    return call.args.get("toolConfirmation", {}) if call.kind == "confirmation" else {}


def _consent_page(call: PendingCall) -> str | None:
    credential = auth_config(call).exchanged_auth_credential
    return credential.oauth2.auth_uri if credential and credential.oauth2 else None


def request_and_commands(
    item: LocatedCall, options: Sequence[str]
) -> tuple[str, list[tuple[str, str]]]:
    """Return a call's request, and each command that answers it, with its label."""
    payload = _confirmation(item.call).get("payload")
    rows = _commands(item.call, short(item.call.call_id, []), payload)
    return _request(item.call), [
        (label, shlex.join(["durable-adk", *words, *options])) for label, words in rows
    ]
