"""The commands that list and answer pending calls."""

from typing import Annotated

import typer

from durable_adk.cli.commands.declaration import command
from durable_adk.cli.commands.options import (
    AnyTarget,
    ConnectionOptions,
    InvocationOptions,
    OneSession,
    OneUser,
)

JsonLines = Annotated[bool, typer.Option("--json", help="One call a line, as JSON.")]
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


@command("pending:pending", "store", "data_dir")
def pending(
    connection: ConnectionOptions,
    target: AnyTarget = None,
    *,
    user: OneUser = None,
    session: OneSession = None,
    lines: JsonLines = False,
) -> None:
    """List the calls that wait for an answer, oldest first, and the commands that answer them.

    Reads the session store only: neither Temporal nor the agent is needed.

    [bold]Example[/bold]

      durable-adk pending --user alice
    """


@command("answer:approve", "address", "store", "data_dir")
def approve(
    connection: ConnectionOptions,
    options: InvocationOptions,
    call_id: CallId,
    *,
    payload: Payload = None,
) -> None:
    """Approve a tool call that waits for confirmation, and print the events that follow.

    [bold]Example[/bold]

      durable-adk approve adk-6f1c --payload '{"seats": 2}'
    """


@command("answer:reject", "address", "store", "data_dir")
def reject(connection: ConnectionOptions, options: InvocationOptions, call_id: CallId) -> None:
    """Reject a tool call that waits for confirmation, and print the events that follow.

    [bold]Example[/bold]

      durable-adk reject adk-6f1c
    """


@command("answer:respond", "address", "store", "data_dir")
def respond(
    connection: ConnectionOptions, options: InvocationOptions, call_id: CallId, result: Result
) -> None:
    """Give the result of a long-running tool call, and print the events that follow.

    [bold]Example[/bold]

      durable-adk respond adk-6f1c '{"status": "delivered"}'
    """


@command("answer:credential", "address", "store", "data_dir")
def credential(connection: ConnectionOptions, options: InvocationOptions, call_id: CallId) -> None:
    """Give a tool the credential that it requests, and print the events that follow.

    The credential is read from standard input, or typed without being shown. It is saved by the
    credential service, which the workers must share, and is in no event and no history. Every kind
    of credential can be given as an AuthCredential in JSON.

    [bold]Example[/bold]

      durable-adk credential adk-6f1c < key.txt
    """
