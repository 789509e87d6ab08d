"""When a call of a function must be confirmed before it runs."""

import inspect
from collections.abc import Callable, Iterable
from typing import Any

from durable_adk.calling import call
from durable_adk.errors import AgentDefinitionError

Requirement = bool | Callable[..., Any]
"""Always, never, or a predicate over the call's arguments; sync or async."""

CONTEXT = "tool_context"


def check_requirement(rule: Requirement, tool_name: str, known: Iterable[str]) -> None:
    """Raise AgentDefinitionError when a predicate asks for what no call of the tool has."""
    if isinstance(rule, bool):
        return
    if not callable(rule):
        raise AgentDefinitionError(
            f"require_confirmation of {tool_name}() is {rule!r}; pass True, False or a function "
            "of the call's arguments."
        )
    names = {*known, CONTEXT}
    for parameter in inspect.signature(rule).parameters.values():
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            continue
        by_name = parameter.kind is not parameter.POSITIONAL_ONLY and parameter.name in names
        if parameter.default is parameter.empty and not by_name:
            raise AgentDefinitionError(
                f"require_confirmation of {tool_name}() wants `{parameter.name}`, but is given "
                f"the tool's own parameters by name: {', '.join(sorted(names))}."
            )


async def is_required(rule: Requirement, arguments: dict[str, Any]) -> bool:
    """Whether a call with these arguments must be confirmed; a predicate gets those it takes."""
    if isinstance(rule, bool):
        return rule
    taken = inspect.signature(rule).parameters.values()
    if not any(parameter.kind is parameter.VAR_KEYWORD for parameter in taken):
        names = {parameter.name for parameter in taken}
        arguments = {name: value for name, value in arguments.items() if name in names}
    return bool(await call(rule, **arguments))
