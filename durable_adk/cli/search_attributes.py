"""``durable-adk search-attributes``: makes invocations searchable in Temporal."""

from typing import Annotated

import typer

from durable_adk.cli.execution import execute
from durable_adk.cli.options import Address, Debug
from durable_adk.client.connect import connect
from durable_adk.client.search_attributes import register_search_attributes
from durable_adk.log import configure

Impersonal = Annotated[
    bool, typer.Option("--impersonal", help="Without the ids of user and session.")
]


def search_attributes_command(
    *, address: Address = None, impersonal: Impersonal = False, debug: Debug = False
) -> None:
    """Register the search attributes by which invocations are found in Temporal.

    Clients set those that the namespace has, so this is all there is to do. If you may not change
    the namespace, it says the commands for somebody who may.

    [bold]Example[/bold]

      durable-adk search-attributes
      temporal workflow list --query "DurableAdkStatus = 'waiting' AND ExecutionStatus = 'Running'"
    """
    configure("warning")
    execute(_register(address, personal=not impersonal), debug=debug)


async def _register(address: str | None, *, personal: bool) -> None:
    added = await register_search_attributes(await connect(address), personal=personal)
    typer.echo(f"Registered {', '.join(added)}." if added else "They are registered already.")
