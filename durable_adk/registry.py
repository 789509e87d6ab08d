"""Upper modules that lower ones call, registered by name in the package's metadata.

Each is an entry point of the group ``durable_adk`` in pyproject.toml. It is loaded at its first
call, so no module imports one above it.
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
