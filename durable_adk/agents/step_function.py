"""Naming and lookup of the functions that a custom agent runs as steps.

Any worker may run a step, so functions are passed by name. Only names in the agent's own module
are resolved: nothing is imported by a name that comes from a history (S12).
"""

from collections.abc import Callable
from types import FunctionType
from typing import Any, TypeVar

from durable_adk.agents.base_agent import BaseAgent
from durable_adk.errors import AgentDefinitionError

F = TypeVar("F", bound=Callable[..., Any])
_OWN = "self."
_READS = "reads_session"
READ_EVENTS = "session.events"
"""Name of a step that calls no function but reads the session's events."""


def reads_session(function: F) -> F:
    """Decorate a step function to receive a `ReadonlyContext` as keyword argument `context`."""
    vars(function)[_READS] = True
    return function


def wants_context(function: Callable[..., Any]) -> bool:
    """Return whether a step function was decorated with `reads_session`."""
    return getattr(function, _READS, False)


def name_of(agent: BaseAgent, function: Callable[..., Any]) -> str:
    """Return the name by which `find` finds the function.

    Raises:
        AgentDefinitionError: The function is neither a method of the agent nor a module global.
    """
    name = getattr(function, "__name__", "")
    if getattr(function, "__self__", None) is agent:
        return f"{_OWN}{name}"
    if any(names.get(name) is function for names in _globals(agent)):
        return name
    raise AgentDefinitionError(
        f"ctx.step cannot run {function!r}: any worker must find it by its name. Pass a method of "
        f"{agent.name!r}, or a function defined or imported by name in the module of its class."
    )


def find(agent: BaseAgent, name: str) -> Callable[..., Any]:
    """Return the function with this name.

    Raises:
        AgentDefinitionError: The agent's module no longer has such a function.
    """
    if name.startswith(_OWN):
        found = getattr(agent, name.removeprefix(_OWN), None)
    else:
        found = next((names[name] for names in _globals(agent) if name in names), None)
    if not callable(found):
        raise AgentDefinitionError(
            f"Agent {agent.name!r} has no step function {name!r} any more; a function that open "
            "invocations use must keep its name."
        )
    return found


def _globals(agent: BaseAgent) -> list[dict[str, Any]]:
    """Return the globals of the modules that define the agent's class and its bases."""
    # Taken from the functions, because the workflow sandbox replaces sys.modules.
    bodies = [vars(kind).get("_run_async_impl") for kind in type(agent).__mro__]
    return [body.__globals__ for body in bodies if isinstance(body, FunctionType)]
