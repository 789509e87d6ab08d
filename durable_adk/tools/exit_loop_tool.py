"""The tool with which a model leaves a loop."""

from durable_adk.context.activity import ToolContext


def exit_loop(tool_context: ToolContext) -> None:
    """Leave the loop. Call this only when your instruction says so."""
    # The loop ends by the first, the agent that called by the second (semantics TOL-22, FLW-53).
    tool_context.actions.escalate = True
    tool_context.actions.skip_summarization = True
