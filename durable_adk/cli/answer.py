"""``durable-adk approve``, ``reject``, ``respond`` and ``credential``: answers to waiting calls."""

import json
from typing import Annotated, Any, cast

import typer

from durable_adk.cli.desk import Desk, Respond
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
from durable_adk.cli.secret import answer_with, asked_config, prompt_for
from durable_adk.cli.terminal import read_secret
from durable_adk.conversation.pending_calls import PendingCall
from durable_adk.errors import InvalidRequestError

CallId = Annotated[
    str,
    typer.Argument(help="The call's id, or the beginning of it alone.", show_default=False),
]
Payload = Annotated[
    str | None,
    typer.Option(help="JSON: what the tool asked to be filled in.", show_default=False),
]
Result = Annotated[
    str, typer.Argument(help="The result: a JSON object.", metavar="JSON", show_default=False)
]

_COMMANDS = {
    "confirmation": "approve` or `durable-adk reject",
    "credential": "credential",
    "long_running": "respond",
}


def approve_command(
    call_id: CallId,
    *,
    payload: Payload = None,
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
    """Let a tool call run that waits for approval, and print what comes of it.

    [bold]Example[/bold]

      durable-adk approve adk-6f1c --payload '{"seats": 2}'
    """
    places = Places(address=address, store=store, data_dir=data_dir)
    desk = Desk(
        places=places, target=target, user=user, session=session, detach=detach, as_json=as_json
    )
    execute(desk.answer(call_id, _decide(confirmed=True, payload=payload)), debug=debug)


def reject_command(
    call_id: CallId,
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
    """Refuse a tool call that waits for approval, and print what comes of it.

    [bold]Example[/bold]

      durable-adk reject adk-6f1c
    """
    places = Places(address=address, store=store, data_dir=data_dir)
    desk = Desk(
        places=places, target=target, user=user, session=session, detach=detach, as_json=as_json
    )
    execute(desk.answer(call_id, _decide(confirmed=False)), debug=debug)


def respond_command(
    call_id: CallId,
    result: Result,
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
    """Give the result of a long-running tool call, and print what comes of it.

    [bold]Example[/bold]

      durable-adk respond adk-6f1c '{"status": "delivered"}'
    """
    places = Places(address=address, store=store, data_dir=data_dir)
    desk = Desk(
        places=places, target=target, user=user, session=session, detach=detach, as_json=as_json
    )
    execute(desk.answer(call_id, _result(result)), debug=debug)


def credential_command(
    call_id: CallId,
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
    """Give a tool the credential that it asked for, and print what comes of it.

    The credential is read from standard input, or asked for without being shown. It goes into the
    folder of credentials, which the workers must share, and into no event or history. For every
    kind an AuthCredential as JSON will do.

    [bold]Example[/bold]

      durable-adk credential adk-6f1c < key.txt
    """
    places = Places(address=address, store=store, data_dir=data_dir)
    desk = Desk(
        places=places, target=target, user=user, session=session, detach=detach, as_json=as_json
    )
    execute(desk.answer(call_id, _ask_for_secret), debug=debug)


def _decide(*, confirmed: bool, payload: str | None = None) -> Respond:
    async def respond(call: PendingCall) -> dict[str, Any]:
        _require(call, "confirmation")
        filled = {} if payload is None else {"payload": _parsed(payload, "--payload")}
        return {"confirmed": confirmed, **filled}

    return respond


def _result(text: str) -> Respond:
    async def respond(call: PendingCall) -> dict[str, Any]:
        _require(call, "long_running")
        value = _parsed(text, "The result")
        if not isinstance(value, dict):
            raise InvalidRequestError(
                'The result must be a JSON object, such as {"result": "done"}.'
            )
        return cast("dict[str, Any]", value)

    return respond


async def _ask_for_secret(call: PendingCall) -> dict[str, Any]:
    _require(call, "credential")
    asked = asked_config(call)
    return answer_with(asked, await read_secret(prompt_for(asked, call.original_name)))


def _require(call: PendingCall, kind: str) -> None:
    if call.kind != kind:
        raise InvalidRequestError(
            f"The call {call.call_id!r} is answered with `durable-adk {_COMMANDS[call.kind]}`."
        )


def _parsed(text: str, what: str) -> Any:
    try:
        return json.loads(text)
    except ValueError as error:
        raise InvalidRequestError(f"{what} is no JSON: {error}") from None
