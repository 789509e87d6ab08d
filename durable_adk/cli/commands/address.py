"""The default address of Temporal for commands."""

import typer

from durable_adk.client.connect import configured_address
from durable_adk.errors import InvalidRequestError


def address_of_profile() -> str | None:
    """Return the address in the user's Temporal profile, if there is one."""
    try:
        return configured_address()
    except InvalidRequestError as error:
        raise typer.BadParameter(error.message) from error
