"""What lower modules of the package call of upper ones, by names of the package's metadata.

A module that is needed below it is an entry point of the group ``durable_adk`` in pyproject.toml,
so it is loaded when it is called for the first time and no module imports one above it.
"""

from functools import cache
from importlib.metadata import entry_points
from typing import Any


@cache
def registered(name: str) -> Any:
    """Return the module that is registered under a name.

    Raises:
        ImportError: The installed metadata does not have it.
    """
    found = tuple(entry_points(group="durable_adk", name=name))
    if not found:
        raise ImportError(
            f"The metadata of durable-adk does not have {name!r}: install the package again, or "
            "for a source tree `pip install --editable .`"
        )
    return found[0].load()
