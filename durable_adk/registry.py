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
    for point in entry_points(group="durable_adk", name=name):
        if point.value.startswith("durable_adk."):  # other distributions replace nothing here
            return point.load()
    raise ImportError(
        f"The metadata of durable-adk does not have {name!r}: install the package again, a source "
        "tree with `pip install --editable .`; a frozen application needs the package's metadata "
        "(PyInstaller: --copy-metadata durable-adk)."
    )
