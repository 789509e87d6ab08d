"""When a call must be confirmed before it runs."""

import inspect
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from durable_adk.calling import call
from durable_adk.errors import AgentDefinitionError

if TYPE_CHECKING:
    from durable_adk.context.activity import ToolContext
    from durable_adk.tools.base_tool import BaseTool

NEEDS_CONFIRMATION = "This tool call requires confirmation, please approve or reject."
REJECTED = "This tool call is rejected."

ConfirmationRule = bool | Callable[..., Any]
"""Always, never, or a predicate over the call's arguments; sync or async."""

CONTEXT = "tool_context"


def check_requirement(rule: ConfirmationRule, tool_name: str, known: Iterable[str]) -> None:
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


async def is_required(rule: ConfirmationRule, arguments: dict[str, Any]) -> bool:
    """Whether a call with these arguments must be confirmed; a predicate gets those it takes."""
    if isinstance(rule, bool):
        return rule
    taken = inspect.signature(rule).parameters.values()
    if not any(parameter.kind is parameter.VAR_KEYWORD for parameter in taken):
        names = {parameter.name for parameter in taken}
        arguments = {name: value for name, value in arguments.items() if name in names}
    return bool(await call(rule, **arguments))


def runtime_hint(tool_name: str) -> str:
    """What the user is asked when the runtime asks, because the tool requires confirmation.

    In histories that do not record who asked, the text tells it.
    """
    return f"Approve or reject the call of the tool {tool_name}() with these arguments."


def rejection(tool_context: "ToolContext | None") -> str | None:
    """Why a call may not run: somebody has said no; None: nobody has."""
    decision = tool_context and tool_context.tool_confirmation
    return REJECTED if decision is not None and not decision.confirmed else None


async def confirmation_refusal(
    tool: "BaseTool", args: dict[str, Any], tool_context: "ToolContext"
) -> str | None:
    """Why a call may not run, after asking whether it may; None: it may (TOL-61, TOL-63).

    What was decided stands: a predicate is not asked again, as it may say otherwise by now.
    """
    if tool_context.tool_confirmation is not None:
        return rejection(tool_context)
    if not await tool.needs_confirmation(args, tool_context):
        return None
    tool_context.request_confirmation(hint=runtime_hint(tool.name))
    tool_context.asked_by = "runtime"
    return NEEDS_CONFIRMATION
