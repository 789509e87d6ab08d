"""The `require_confirmation` option: which calls a user must confirm before they run."""

import inspect
from collections.abc import Callable, Iterable
from typing import Any

from durable_adk.calling import call
from durable_adk.context.activity import ToolContext
from durable_adk.errors import AgentDefinitionError
from durable_adk.tools.base_tool import BaseTool, is_function

NEEDS_CONFIRMATION = "This tool call requires confirmation, please approve or reject."
REJECTED = "This tool call is rejected."
NOT_AS_SHOWN = "This tool call was not run: it was approved with other arguments."

ConfirmationRule = bool | Callable[..., Any]
"""Always, never, or a sync or async predicate of the call's arguments."""

CONTEXT = "tool_context"


def check_requirement(rule: ConfirmationRule, tool_name: str, known: Iterable[str]) -> None:
    """Validate a rule.

    Raises:
        AgentDefinitionError: A predicate has a parameter that the tool does not have.
    """
    if isinstance(rule, bool):
        return
    if not is_function(rule):
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
                f"require_confirmation of {tool_name}() needs `{parameter.name}`, but receives "
                f"the tool's own parameters by name: {', '.join(sorted(names))}."
            )


async def is_required(rule: ConfirmationRule, arguments: dict[str, Any]) -> bool:
    """Return whether a call must be confirmed; a predicate receives the arguments it declares."""
    if isinstance(rule, bool):
        return rule
    taken = inspect.signature(rule).parameters.values()
    if not any(parameter.kind is parameter.VAR_KEYWORD for parameter in taken):
        names = {parameter.name for parameter in taken}
        arguments = {name: value for name, value in arguments.items() if name in names}
    return bool(await call(rule, **arguments))


def runtime_hint(tool_name: str) -> str:
    """Return ADK's hint text, used for confirmations that the runtime requests."""
    return (
        f"Please approve or reject the tool call {tool_name}() by responding with a "
        "FunctionResponse with an expected ToolConfirmation payload."
    )


def is_runtime_hint(hint: Any, tool_name: str) -> bool:
    """Return whether a hint shows that the runtime requested the confirmation.

    For sessions of google-adk, which do not record the requester.
    """
    return hint == runtime_hint(tool_name)


def rejection(tool_context: ToolContext | None) -> str | None:
    """Return the error for a call that the user rejected; None if it was not rejected."""
    decision = tool_context and tool_context.tool_confirmation
    return REJECTED if decision is not None and not decision.confirmed else None


async def confirmation_refusal(
    tool: BaseTool, args: dict[str, Any], tool_context: ToolContext
) -> str | None:
    """Return the error for a call that may not run yet, after requesting its confirmation.

    None: the call may run (TOL-61, TOL-63). A decision is final: the predicate is not evaluated
    again, because its result may have changed.
    """
    if tool_context.tool_confirmation is not None:
        return rejection(tool_context)
    if not await tool.check_require_confirmation(args, tool_context):
        return None
    tool_context.request_confirmation(hint=runtime_hint(tool.name))
    tool_context.requested_by = "runtime"
    return NEEDS_CONFIRMATION
