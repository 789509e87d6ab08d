from google.adk.agents import LlmAgent
from google.adk.tools.tool_context import ToolContext

from ..config import DONE, MODEL


def exit_loop(tool_context: ToolContext):
    """Call this when there is nothing more to improve."""
    print(f"  [exit_loop by {tool_context.agent_name}]")
    tool_context.actions.escalate = True
    return {}


critic = LlmAgent(
    name="Critic",
    model=MODEL,
    include_contents="none",
    instruction="You review this brief: {brief} "
    f"Say '{DONE}' if it is fine.",
    output_key="criticism",
)

refiner = LlmAgent(
    name="Refiner",
    model=MODEL,
    include_contents="none",
    instruction="You improve a brief. Brief: {brief} Criticism: {criticism}. "
    f"If the criticism is '{DONE}', call exit_loop.",
    tools=[exit_loop],
    output_key="brief",
)
