"""The installed version of google-adk, and whether this package supports its objects."""

import re
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec

FIRST = (2, 13)
"""The first supported version of google-adk; all later ones of its major version are supported."""


@cache
def has_google_adk() -> bool:
    """Whether a supported version of google-adk is installed."""
    return find_spec("google.adk") is not None and unfit_google_adk() is None


def unfit_google_adk() -> str | None:
    """Return the installed version of google-adk if it is not supported, else None."""
    try:
        found = version("google-adk")
    except PackageNotFoundError:
        return None  # installed without its metadata
    numbers = tuple(int(number) for number in re.findall(r"\d+", found)[:2])
    return None if numbers >= FIRST and numbers[0] == FIRST[0] else found
