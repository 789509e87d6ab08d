"""Commands that answer a pending call or cancel an invocation: ``approve`` and others."""

import asyncio
import json
import shlex
import sys
from collections.abc import Awaitable, Callable
from contextlib import aclosing, redirect_stdout
from dataclasses import dataclass
from typing import Annotated, Any, cast

import typer
from google.genai import types
from pydantic import ValidationError

from durable_adk.apps.app import App
from durable_adk.auth.auth_credential import (
    AuthCredential,
    AuthCredentialTypes,
    HttpAuth,
    HttpCredentials,
    OAuth2Auth,
    ServiceAccount,
    ServiceAccountCredential,
)
from durable_adk.auth.auth_tool import AuthConfig
from durable_adk.cli.execution import command, note
from durable_adk.cli.pending import (
    OneSession,
    OneUser,
    auth_config,
    find_call,
    find_invocation,
    show_calls,
)
from durable_adk.cli.server import ServerConnection, load_app
from durable_adk.cli.target import defines_app
from durable_adk.cli.terminal import Detach, EventPrinter, Json, read_secret
from durable_adk.client.feed import follow
from durable_adk.client.invocation_client import Feed
from durable_adk.client.queries import InvocationFilter, LocatedCall, pending_calls_of
from durable_adk.conversation.pending_calls import PendingCall
from durable_adk.errors import InvalidRequestError
from durable_adk.sessions.records import InvocationRecord
from durable_adk.sessions.session_log import SessionLog
from durable_adk.wire.messages import InvocationRequest

CallId = Annotated[
    str, typer.Argument(help="The call's id, or a unique beginning of it.", show_default=False)
]
Payload = Annotated[
    str | None,
    typer.Option(help="JSON: the values that the tool asks you to fill in.", show_default=False),
]
Result = Annotated[
    str, typer.Argument(help="The result: a JSON object.", metavar="JSON", show_default=False)
]
OpenInvocation = Annotated[
    str,
    typer.Argument(help="The invocation's id, or a unique beginning of it.", show_default=False),
]
Response = Callable[[PendingCall], Awaitable[dict[str, Any]]]
"""Makes the response to a call."""

_COMMANDS = {
    "confirmation": "approve` or `durable-adk reject",
    "credential": "credential",
    "long_running": "respond",
}
_PROMPTS = {
    AuthCredentialTypes.API_KEY: "API key",
    AuthCredentialTypes.HTTP: "Token, or user:password for basic authentication",
    AuthCredentialTypes.OAUTH2: "URL that you were redirected to, or access token",
    AuthCredentialTypes.OPEN_ID_CONNECT: "URL that you were redirected to, or access token",
    AuthCredentialTypes.SERVICE_ACCOUNT: "Key file of the service account, on one line",
}


@dataclass(frozen=True, kw_only=True)
class InvocationOptions:
    """The options of commands that send something to an open invocation."""

    target: Annotated[
        str | None,
        typer.Option(
            help="The app: its name, or a folder, file or module that defines it. The latter runs "
            "it in this command unless --address is given; needed if no other worker does.",
            show_default=False,
        ),
    ] = None
    user: OneUser = None
    session: OneSession = None
    detach: Detach = False
    as_json: Json = False

    async def scope(self, sessions: SessionLog) -> tuple[InvocationFilter, App | None]:
        """Where to search, and the app to serve meanwhile.

        Raises:
            AgentDefinitionError: The target neither is the name of an app nor defines one.
        """
        name, app = self.target, None
        if name is not None and defines_app(name, await sessions.list_apps()):
            app = load_app(name)
            name = app.name
        return InvocationFilter(app=name, user=self.user, session=self.session), app


@command("address", "store", "data_dir")
async def approve(
    connection: ServerConnection,
    options: InvocationOptions,
    call_id: CallId,
    *,
    payload: Payload = None,
) -> None:
    """Approve a tool call that waits for confirmation, and print the events that follow.

    [bold]Example[/bold]

      durable-adk approve adk-6f1c --payload '{"seats": 2}'
    """

    async def confirm(_: PendingCall) -> dict[str, Any]:
        filled = {} if payload is None else {"payload": _parsed(payload, "--payload")}
        return {"confirmed": True, **filled}

    await _answer(connection, options, call_id, "confirmation", confirm)


@command("address", "store", "data_dir")
async def reject(connection: ServerConnection, options: InvocationOptions, call_id: CallId) -> None:
    """Reject a tool call that waits for confirmation, and print the events that follow.

    [bold]Example[/bold]

      durable-adk reject adk-6f1c
    """

    async def refuse(_: PendingCall) -> dict[str, Any]:
        return {"confirmed": False}

    await _answer(connection, options, call_id, "confirmation", refuse)


@command("address", "store", "data_dir")
async def respond(
    connection: ServerConnection, options: InvocationOptions, call_id: CallId, result: Result
) -> None:
    """Give the result of a long-running tool call, and print the events that follow.

    [bold]Example[/bold]

      durable-adk respond adk-6f1c '{"status": "delivered"}'
    """

    async def parse(_: PendingCall) -> dict[str, Any]:
        value = _parsed(result, "The result")
        if not isinstance(value, dict):
            raise InvalidRequestError(
                'The result must be a JSON object, such as {"result": "done"}.'
            )
        return cast("dict[str, Any]", value)

    await _answer(connection, options, call_id, "long_running", parse)


@command("address", "store", "data_dir")
async def credential(
    connection: ServerConnection, options: InvocationOptions, call_id: CallId
) -> None:
    """Give a tool the credential that it requests, and print the events that follow.

    The credential is read from standard input, or typed without being shown. It is saved by the
    credential service, which the workers must share, and is in no event and no history. Every kind
    of credential can be given as an AuthCredential in JSON.

    [bold]Example[/bold]

      durable-adk credential adk-6f1c < key.txt
    """

    async def ask(call: PendingCall) -> dict[str, Any]:
        config = auth_config(call)
        text = await read_secret(credential_prompt(config, call.original_name))
        return credential_response(config, text)

    await _answer(connection, options, call_id, "credential", ask)


@command("address", "store", "data_dir")
async def cancel(
    connection: ServerConnection, options: InvocationOptions, invocation_id: OpenInvocation
) -> None:
    """Cancel an invocation that runs or waits; the events it has committed stay.

    [bold]Example[/bold]

      durable-adk cancel e-6f1c
    """
    printer = EventPrinter(as_json=options.as_json)
    with redirect_stdout(sys.stderr if options.as_json else sys.stdout):
        async with connection.sessions(existing=True) as sessions:
            where, app = await options.scope(sessions)
            key, record = await find_invocation(sessions, where, invocation_id)
        if record.status.closed:
            _note_ended(record)
            return
        follows = not options.detach
        async with connection.invocation_client(record, app=app, needs_worker=follows) as client:
            cursor, _ = await client.sessions.read_state(key)
            if not await client.cancel(key, record.invocation_id):
                _note_ended(record)
                return
            if not follows:
                return
            events = follow(
                client.sessions,
                key,
                invocation_id=record.invocation_id,
                after=cursor,
                run=await client.backend.attach(key, record.invocation_id, record),
                pauses=record.pauses,
            )
            async with aclosing(events):
                async for stored in events:
                    printer.show(stored.event)


def _note_ended(record: InvocationRecord) -> None:
    status = record.status.value if record.status.closed else "its workflow is closed"
    note(f"Invocation {record.invocation_id} had already ended: {status}.")


async def _answer(
    connection: ServerConnection,
    options: InvocationOptions,
    call_id: str,
    kind: str,
    response: Response,
) -> None:
    """Answer a call, then print events until the invocation ends or pauses again."""
    printer = EventPrinter(as_json=options.as_json)
    # Agents may print; their text must not get between our lines of JSON.
    with redirect_stdout(sys.stderr if options.as_json else sys.stdout):
        async with connection.sessions(existing=True) as sessions:
            where, app = await options.scope(sessions)
            found = await find_call(sessions, where, call_id)
        if found.call.kind != kind:
            raise InvalidRequestError(
                f"Answer call {found.call.call_id!r} with "
                f"`durable-adk {_COMMANDS[found.call.kind]}`."
            )
        request = _request(found, await response(found.call))
        async with connection.invocation_client(found.record, app=app) as client:
            continuing = _continuing(found, connection, options)
            events = client.answer(request)
            await _follow(events, printer, detach=options.detach, continuing=continuing)
            if options.detach:
                note(f"Answer to {found.call.call_id} accepted.")
                return
            calls = await pending_calls_of(client.sessions, found.key, found.record.invocation_id)
            target = ["--target", options.target] if options.target else []
            show_calls(calls, options=[*connection.arguments, *target], file=sys.stderr)


async def _follow(events: Feed, printer: EventPrinter, *, detach: bool, continuing: str) -> None:
    """Print the events after an answer; with `detach`, only wait until it is accepted."""
    accepted = False
    try:
        async with aclosing(events):
            async for event in events:
                accepted = True  # the first event is the answer itself
                if detach:
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
    """What to tell a user who interrupts the command after the answer was accepted."""
    if options.target is None:
        return "the answer was accepted, and the invocation continues on its worker."
    key, name = found.key, found.record.invocation_id
    words = ["durable-adk", "attach", options.target, name, "--session", key.session_id]
    words += ["--user", key.user_id, *connection.arguments]
    return f"the answer was accepted. Continue with: {shlex.join(words)}"


def _request(found: LocatedCall, response: dict[str, Any]) -> InvocationRequest:
    key, call = found.key, found.call
    part = types.FunctionResponse(id=call.call_id, name=call.name, response=response)
    message = types.Content(role="user", parts=[types.Part(function_response=part)])
    session = {"app": key.app_name, "user": key.user_id, "session": key.session_id}
    return InvocationRequest.parse({**session, "message": message, "create_session": False})


def _parsed(text: str, what: str) -> Any:
    try:
        return json.loads(text)
    except ValueError as error:
        raise InvalidRequestError(f"{what} is not valid JSON: {error}") from None


# No error below quotes what was typed, and none has a cause that does: it is a secret (TRAP-48).


def credential_prompt(asked: AuthConfig, tool: str) -> str:
    """The prompt for a credential of the requested kind."""
    kind = _kind(asked)
    words = _PROMPTS[kind] if kind else "AuthCredential as JSON"
    return f"{words}, for {tool} (not shown): "


def credential_response(asked: AuthConfig, text: str) -> dict[str, Any]:
    """The response to a credential request; it holds the secret.

    Args:
        asked: The requested configuration; an AuthCredential in JSON fits each kind.
        text: What the user typed.

    Raises:
        InvalidRequestError: The text is empty, or no credential of the requested kind.
    """
    if not (text := text.strip()):
        raise InvalidRequestError("No credential was given; nothing was sent.")
    given = asked.model_copy(update={"exchanged_auth_credential": _credential(asked, text)})
    return given.model_dump(mode="json", by_alias=True, exclude_none=True)


def _kind(asked: AuthConfig) -> AuthCredentialTypes | None:
    if asked.raw_auth_credential is not None:
        return asked.raw_auth_credential.auth_type
    known = {str(kind): kind for kind in AuthCredentialTypes}
    return known.get(str(asked.auth_scheme.type_))


def _credential(asked: AuthConfig, text: str) -> AuthCredential:
    data = _json_object(text)
    kind = _kind(asked)
    try:
        if data is not None and {"authType", "auth_type"} & set(data):
            return AuthCredential.model_validate(data)
        match kind:
            case AuthCredentialTypes.API_KEY:
                return AuthCredential(auth_type=kind, api_key=text)
            case AuthCredentialTypes.HTTP:
                return AuthCredential(auth_type=kind, http=_http(asked, text))
            case AuthCredentialTypes.OAUTH2 | AuthCredentialTypes.OPEN_ID_CONNECT:
                return AuthCredential(auth_type=kind, oauth2=_oauth2(asked, text))
            case AuthCredentialTypes.SERVICE_ACCOUNT:
                key = ServiceAccountCredential.model_validate(data)
                account = ServiceAccount(service_account_credential=key)
                return AuthCredential(auth_type=kind, service_account=account)
            case None:
                pass
    except ValidationError:
        pass
    what = kind.value if kind else "AuthCredential (JSON)"
    raise InvalidRequestError(f"The text is not a credential of the kind {what}.") from None


def _json_object(text: str) -> dict[str, Any] | None:
    try:
        data = json.loads(text)
    except ValueError:
        return None
    return cast("dict[str, Any]", data) if isinstance(data, dict) else None


def _http(asked: AuthConfig, text: str) -> HttpAuth:
    raw = asked.raw_auth_credential and asked.raw_auth_credential.http
    scheme = raw.scheme if raw else str(getattr(asked.auth_scheme, "scheme", "bearer"))
    if scheme.lower() != "basic":
        return HttpAuth(scheme=scheme, credentials=HttpCredentials(token=text))
    user, colon, password = text.partition(":")
    if not colon:
        raise InvalidRequestError("For basic authentication type user:password.")
    return HttpAuth(scheme=scheme, credentials=HttpCredentials(username=user, password=password))


def _oauth2(asked: AuthConfig, text: str) -> OAuth2Auth:
    """The requested consent, with the redirect URL or the access token."""
    sent = asked.exchanged_auth_credential or asked.raw_auth_credential
    consent = (sent and sent.oauth2) or OAuth2Auth()
    redirected = text.startswith(("http://", "https://"))
    name = "auth_response_uri" if redirected else "access_token"
    return consent.model_copy(update={name: text})
