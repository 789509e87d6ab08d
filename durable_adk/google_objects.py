"""Accepts objects of google-adk wherever this package's own are accepted.

`durable_adk.interop`, registered as ``google_adk``, adapts them. It is loaded with the first such
object.
"""

import sys
from typing import Any, cast

from durable_adk.compatibility.google_version import FIRST, has_google_adk, unfit_google_adk
from durable_adk.errors import AgentDefinitionError, InvalidRequestError
from durable_adk.registry import registered

_PACKAGES = {
    "session": "sessions",
    "artifact": "artifacts",
    "credential": "auth.credential_service",
}


def from_google_adk(value: Any) -> Any:
    """Return an object of google-adk as one of this package; others unchanged.

    The adapter is loaded with the first such object.
    """
    return _interop().from_google_adk(value) if is_from_google_adk(value) else value


def is_from_google_adk(value: Any) -> bool:
    """Return whether an object's class, or a base of it, is google-adk's."""
    if "google.adk" not in sys.modules:
        return False
    return any(base.__module__.startswith("google.adk.") for base in type(value).__mro__)


def all_from_google_adk(values: Any) -> Any:
    """Return a list with `from_google_adk` applied to each item; other values unchanged."""
    if not isinstance(values, list):
        return values
    return [from_google_adk(value) for value in cast("list[Any]", values)]


def callable_from_google_adk(function: Any, *, tool: bool = False, truthy: bool = False) -> Any:
    """Adapt a function whose annotations name classes of google-adk; others are unchanged.

    Args:
        function: A callback, an instruction provider, or a tool function.
        tool: Whether it is a tool function, which becomes a tool.
        truthy: Whether a falsy return value of a callback counts as None, as for models in ADK.

    If the installed google-adk is one whose objects do not run here, the function receives this
    package's objects.
    """
    if "google.adk" not in sys.modules or not callable(function) or not has_google_adk():
        return function
    return _interop().callable_from_google_adk(function, tool=tool, truthy=truthy)


def node_from_google_adk(function: Any, options: dict[str, Any]) -> Any:
    """Return the node of a function whose annotations name classes of google-adk; else None.

    Args:
        function: The function; it gets google-adk's context.
        options: The fields of the node.
    """
    if "google.adk" not in sys.modules or not has_google_adk():
        return None
    return _interop().node_from_google_adk(function, options)


def agent_of_config(path: str) -> Any:
    """Return the agent that a google-adk YAML file describes; the extra must be installed."""
    return _interop().agent_of_config(path)


def known_to_google_adk(model: str) -> Any:
    """Return the model that an installed google-adk registers under a name; None if it has none."""
    if not has_google_adk():
        return None
    found = _interop().our_model(model)
    return None if isinstance(found, str) else found


def require_own(sessions: Any, artifacts: Any, credentials: Any) -> None:
    """Reject google-adk's services for sessions, artifacts and credentials.

    Raises:
        InvalidRequestError: One is google-adk's: a repeated step would store its data twice.
    """
    given = {"session": sessions, "artifact": artifacts, "credential": credentials}
    for name, service in given.items():
        if any(base.__module__.startswith("google.adk.") for base in type(service).__mro__):
            raise InvalidRequestError(
                f"{name}_service: {type(service).__name__} is google-adk's and cannot serve here; "
                f"import a service of durable_adk.{_PACKAGES[name]}, which has classes of the same "
                "names. `durable-adk sessions import` copies the databases of google-adk."
            )


def _interop() -> Any:
    """Return the module that adapts google-adk's objects.

    Raises:
        AgentDefinitionError: Objects of the installed version do not run here.
    """
    if not has_google_adk() and (found := unfit_google_adk()):
        first, second = FIRST
        raise AgentDefinitionError(
            f"google-adk {found} is installed, and objects of {first}.{second} or newer, below "
            f'{first + 1}, run here: pip install --upgrade "durable-adk[adk]"'
        )
    return registered("google_adk")
