"""The plugins' callbacks around the call of a tool that is a node (GR-55, GR-89)."""

from typing import Any

from durable_adk.activities.user_code.callbacks import answer_of
from durable_adk.calling import contained
from durable_adk.context.activity import Context
from durable_adk.plugins.plugin_manager import PluginManager
from durable_adk.tools.base_tool import BaseTool


async def call_with_hooks(
    plugins: PluginManager, tool: BaseTool, args: dict[str, Any], context: Context
) -> Any:
    """Return the tool's result, or what a plugin gives instead.

    There are no callbacks of an agent: the node has none.

    Args:
        plugins: The app's plugins.
        tool: The tool.
        args: The call's arguments, which the callbacks before the call may change.
        context: The node's context.

    Raises:
        Exception: The tool raised, and no plugin gave a result instead.
    """
    given: dict[str, Any] = {"tool": tool, "args": args, "tool_context": context}
    response = await answer_of(plugins, "before_tool_callback", (), **given)
    if response is None:
        try:
            response = await contained(tool.run_async(args=args, tool_context=context))
        except Exception as error:
            response = await answer_of(plugins, "on_tool_error_callback", (), **given, error=error)
            if response is None:
                raise
        if context.actions.requested_tool_confirmations:
            return response  # the tool has no result yet
    changed = await answer_of(plugins, "after_tool_callback", (), **given, tool_response=response)
    return response if changed is None else changed
