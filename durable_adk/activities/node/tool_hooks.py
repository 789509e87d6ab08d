"""The call of a tool that is a node: plugins' callbacks around it (GR-55, GR-89), its contract."""

from typing import Any

from durable_adk.activities.step import ActiveStep
from durable_adk.activities.tool.contract import (
    AtMostOnce,
    RunLostError,
    ToolNotStartedError,
)
from durable_adk.activities.user_code.callbacks import answer_of
from durable_adk.calling import contained
from durable_adk.context.activity import Context
from durable_adk.errors import ToolError
from durable_adk.tools.base_tool import BaseTool
from durable_adk.tools.reconcile import LOST, unknown_outcome
from durable_adk.wire.steps import NodeStep
from durable_adk.wire.tool_contract import ToolContract


async def call_with_hooks(
    active: ActiveStep[NodeStep], tool: BaseTool, args: dict[str, Any], context: Context
) -> Any:
    """Return the tool's result, or what a plugin gives instead.

    There are no callbacks of an agent: the node has none.

    Args:
        active: The node's step.
        tool: The tool.
        args: The call's arguments, which the callbacks before the call may change.
        context: The node's context.

    Raises:
        Exception: The tool raised, and no plugin gave a result instead.
        ToolNotStartedError: The store does not let an at-most-once tool start.
    """
    plugins = active.plugins
    given: dict[str, Any] = {"tool": tool, "args": args, "tool_context": context}
    response = await answer_of(plugins, "before_tool_callback", (), **given)
    if response is None:
        try:
            response = await _response(active, tool, args, context)
        except ToolNotStartedError:
            raise
        except Exception as error:
            response = await answer_of(plugins, "on_tool_error_callback", (), **given, error=error)
            if response is None:
                raise
        if context.actions.requested_tool_confirmations:
            return response  # the tool has no result yet
    changed = await answer_of(plugins, "after_tool_callback", (), **given, tool_response=response)
    return response if changed is None else changed


async def _response(
    active: ActiveStep[NodeStep], tool: BaseTool, args: dict[str, Any], context: Context
) -> Any:
    """Run the tool as often as its contract allows.

    Raises:
        ToolError: An earlier run of an at-most-once tool was lost, and its outcome is unknown. No
            successor takes that for a result.
    """
    if active.step.contract is ToolContract.AT_MOST_ONCE:
        try:
            given = await AtMostOnce(active).instead(tool, args, context)
        except RunLostError:
            raise ToolError(unknown_outcome(tool.name, LOST)["error"]) from None
        if given is not None:
            return given
    return await contained(tool.run_async(args=args, tool_context=context))
