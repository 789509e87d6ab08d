import os

from google.adk.agents import Agent
from google.adk.models.lite_llm import LiteLlm
from google.adk.tools import ToolContext

from .unit_tool import UnitTool, UnitToolset


def choose_units(units: list[str], tool_context: ToolContext) -> str:
    """Chooses the units that are offered from now on."""
    tool_context.state["units"] = units
    return "From now on: " + ", ".join(units)


root_agent = Agent(
    name="converter",
    model=LiteLlm(
        model="openai/qwen3", api_base=os.getenv("LOCAL_LLM_BASE"), api_key="none", temperature=0
    ),
    instruction="You convert lengths. Use one tool for each conversion.",
    tools=[
        UnitTool("feet", "inches", 12),
        UnitToolset(miles=("feet", 5280), yards=("feet", 3)),
        choose_units,
    ],
)
