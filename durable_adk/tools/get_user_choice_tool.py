"""The tool by which a model lets the user choose between options."""

from durable_adk.context.activity import ToolContext
from durable_adk.tools.long_running_tool import LongRunningFunctionTool


def get_user_choice(options: list[str], tool_context: ToolContext) -> None:
    """Show the user some options and ask for one of them."""
    del options  # the application shows them: they are in the call's arguments (TOL-24)
    tool_context.actions.skip_summarization = True


get_user_choice_tool = LongRunningFunctionTool(get_user_choice)
"""The tool; its result is the user's choice."""
