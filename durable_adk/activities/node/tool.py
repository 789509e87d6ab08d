"""The call of a tool that is a node of a graph."""

from typing import Any

from durable_adk.context.activity import ToolContext
from durable_adk.plugins.plugin_manager import PluginManager
from durable_adk.tools.base_tool import BaseTool


async def call_tool(
    plugins: PluginManager, tool: BaseTool, args: dict[str, Any], context: ToolContext
) -> Any:
    """Call a tool between the plugins' hooks, and return its result (GR-55).

    A tool that asks for a confirmation has no result yet, and the hook after it is not called.

    Raises:
        Exception: What the tool raised, if no hook has returned a result instead.
    """
    known: dict[str, Any] = {"tool": tool, "tool_args": args, "tool_context": context}
    result = await plugins.run("before_tool_callback", **known)
    if result is None:
        try:
            result = await tool.run_async(args=args, tool_context=context)
        except Exception as error:
            result = await plugins.run("on_tool_error_callback", **known, error=error)
            if result is None:
                raise
        if context.actions.requested_tool_confirmations:
            return result
    changed = await plugins.run("after_tool_callback", **known, result=result)
    return result if changed is None else changed
