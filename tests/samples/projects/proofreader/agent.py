from google.adk.agents import LlmAgent
from google.adk.models.anthropic_llm import AnthropicLlm
from google.adk.tools import AgentTool, ToolContext
from pydantic import BaseModel


class Style(BaseModel):
    tone: str
    formal: bool


def mark(word: str, better: str, tool_context: ToolContext) -> dict:
    """Marks a word that is misspelt."""
    tool_context.state["marks"] = [*tool_context.state.get("marks", []), f"{word} -> {better}"]
    return {"marked": len(tool_context.state["marks"])}


style = LlmAgent(
    name="style",
    description="Tells the tone of a text.",
    model=AnthropicLlm(model="claude-haiku-4-5"),
    instruction="You judge the style.",
    output_schema=Style,
)

root_agent = LlmAgent(
    name="proofreader",
    model=AnthropicLlm(model="claude-sonnet-4-5", max_tokens=1000),
    instruction="You read proofs. Mark each wrong word with mark. Marked so far: {marks?}",
    tools=[mark, AgentTool(agent=style)],
    output_key="verdict",
)
