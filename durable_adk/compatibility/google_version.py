"""Which google-adk is installed, and whether its objects run here."""

import re
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec

FIRST = (2, 13)
"""The first version whose objects run here; all of its major version do."""


@cache
def has_google_adk() -> bool:
    """Whether google-adk is installed in a version whose objects run here."""
    return find_spec("google.adk") is not None and unfit_google_adk() is None


def unfit_google_adk() -> str | None:
    """Return the version of google-adk that is installed, if its objects do not run here."""
    try:
        found = version("google-adk")
    except PackageNotFoundError:
        return None  # it is there without its metadata
    numbers = tuple(int(number) for number in re.findall(r"\d+", found)[:2])
    return None if numbers >= FIRST and numbers[0] == FIRST[0] else found
