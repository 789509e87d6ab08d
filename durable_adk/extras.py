"""Optional libraries, installed by the extras of this package."""

import importlib
import re
import sys
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from typing import Any, cast

from durable_adk.errors import AgentDefinitionError, CallerError, InvalidRequestError

_LIBRARIES = {
    "a2a": ("a2a",),
    "adk": ("google.adk",),
    "agui": ("ag_ui",),
    "codec": ("starlette", "uvicorn"),
    "encryption": ("cryptography",),
    "mcp": ("mcp",),
    "objects": ("obstore",),
    "redis": ("redis",),
    "web": ("fastapi", "uvicorn", "sse_starlette", "httpx", "joserfc", "standardwebhooks"),
    "webhooks": ("httpx", "standardwebhooks"),
}

_OF_GOOGLE_ADK = (2, 13)
"""The first version whose objects run here; all of its major version do."""


_PACKAGES = {
    "session": "sessions",
    "artifact": "artifacts",
    "credential": "auth.credential_service",
}


class Absent(Exception):  # noqa: N818  # never raised, but named in `except` clauses
    """Placeholder for each name of a library that is not installed.

    Modules that need an extra can be imported without it. The names in their annotations, base
    classes and `except` clauses are this class then.
    """


def installed(extra: str) -> bool:
    """Whether the libraries of an extra are installed."""
    return all(find_spec(name) is not None for name in _LIBRARIES[extra])


def require(extra: str, error: type[CallerError] = InvalidRequestError) -> None:
    """Check that the libraries of an extra are installed.

    Raises:
        CallerError: A library is missing; the error is of class `error`.
    """
    missing = [name for name in _LIBRARIES[extra] if find_spec(name) is None]
    if missing:
        names = " and ".join(missing)
        raise error(f'This needs {names}, not installed here: pip install "durable-adk[{extra}]"')


def from_google_adk(value: Any) -> Any:
    """Return an object of google-adk as one of this package, and any other as it is.

    What makes it one is loaded with the first such object.
    """
    if "google.adk" not in sys.modules:
        return value
    if not any(base.__module__.startswith("google.adk.") for base in type(value).__mro__):
        return value
    return _interop().from_google_adk(value)


def callable_from_google_adk(function: Any, *, tool: bool = False, truthy: bool = False) -> Any:
    """Return a function for us, if its annotations name classes of google-adk; others unchanged.

    Args:
        function: A callback, an instruction provider, or a tool function.
        tool: Whether it is a tool function, which becomes a tool.
        truthy: Whether a callback's answer that is false counts as none, as for models in ADK.

    With a google-adk whose objects do not run here, the function gets ours.
    """
    if "google.adk" not in sys.modules or not callable(function) or not has_google_adk():
        return function
    return _interop().callable_from_google_adk(function, tool=tool, truthy=truthy)


@cache
def has_google_adk() -> bool:
    """Whether google-adk is installed in a version whose objects run here."""
    return find_spec("google.adk") is not None and _unfit_google_adk() is None


def _unfit_google_adk() -> str | None:
    """The version of google-adk that is installed, if its objects do not run here."""
    try:
        found = version("google-adk")
    except PackageNotFoundError:
        return None  # it is there without its metadata
    numbers = tuple(int(number) for number in re.findall(r"\d+", found)[:2])
    return None if numbers >= _OF_GOOGLE_ADK and numbers[0] == _OF_GOOGLE_ADK[0] else found


def _interop() -> Any:
    """What runs google-adk's objects.

    Raises:
        AgentDefinitionError: Those of the installed version do not run.
    """
    if not has_google_adk() and (found := _unfit_google_adk()):
        first, second = _OF_GOOGLE_ADK
        raise AgentDefinitionError(
            f"google-adk {found} is installed, and objects of {first}.{second} or newer, below "
            f'{first + 1}, run here: pip install --upgrade "durable-adk[adk]"'
        )
    return importlib.import_module("durable_adk.interop")


def agent_of_config(path: str) -> Any:
    """Return the agent that a YAML file of google-adk describes; the extra must be installed."""
    return _interop().agent_of_config(path)


def known_to_google_adk(model: str) -> Any:
    """Return the model that google-adk, if it is installed, has under a name; None: it has none."""
    if not has_google_adk():
        return None
    found = _interop().our_model(model)
    return None if isinstance(found, str) else found


def all_from_google_adk(values: Any) -> Any:
    """Return a list with `from_google_adk` of each item, and what is no list as it is."""
    if not isinstance(values, list):
        return values
    return [from_google_adk(value) for value in cast("list[Any]", values)]


def require_own(sessions: Any, artifacts: Any, credentials: Any) -> None:
    """Refuse google-adk's services for sessions, artifacts and credentials.

    Raises:
        InvalidRequestError: One is google-adk's, which stores what a step repeats twice.
    """
    given = {"session": sessions, "artifact": artifacts, "credential": credentials}
    for name, service in given.items():
        if any(base.__module__.startswith("google.adk.") for base in type(service).__mro__):
            raise InvalidRequestError(
                f"{name}_service: {type(service).__name__} is google-adk's and cannot serve here; "
                f"import a service of durable_adk.{_PACKAGES[name]}, which has classes of the same "
                "names. `durable-adk sessions import` copies the databases of google-adk."
            )
