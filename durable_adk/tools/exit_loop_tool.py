"""The tool by which a model ends a `LoopAgent`."""

from durable_adk.context.activity import ToolContext


def exit_loop(tool_context: ToolContext) -> None:
    """Leave the loop. Call this only when your instruction says so."""
    # `escalate` ends the loop, `skip_summarization` the calling agent (TOL-22, FLW-53).
    tool_context.actions.escalate = True
    tool_context.actions.skip_summarization = True
