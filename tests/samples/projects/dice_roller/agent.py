import random
from typing import Any, Optional

from google.adk import Agent
from google.adk.agents.callback_context import CallbackContext
from google.adk.tools.base_tool import BaseTool
from google.adk.tools.tool_context import ToolContext
from google.genai import types


def roll_die(sides: int, tool_context: ToolContext) -> int:
    """Roll a die and return the result.

    Args:
        sides: The number of sides of the die.
    """
    result = random.Random(sides).randint(1, sides)
    if "rolls" not in tool_context.state:
        tool_context.state["rolls"] = []
    tool_context.state["rolls"] = tool_context.state["rolls"] + [result]
    tool_context.state["user:last_die"] = sides
    return result


async def check_prime(nums: list[int]) -> str:
    """Check which of the numbers are prime.

    Args:
        nums: The numbers.
    """
    primes = sorted({n for n in nums if n > 1 and all(n % d for d in range(2, n))})
    if not primes:
        return "No prime numbers found."
    return f"{', '.join(str(n) for n in primes)} are prime numbers."


def count_turns(callback_context: CallbackContext) -> Optional[types.Content]:
    callback_context.state["turns"] = callback_context.state.get("turns", 0) + 1
    return None


def log_tool(
    tool: BaseTool, args: dict[str, Any], tool_context: ToolContext, tool_response: Any
) -> Optional[dict]:
    tool_context.state["temp:tool"] = tool.name
    print(f"{tool_context.agent_name}: {tool.name}({args}) = {tool_response}")
    return None


root_agent = Agent(
    model="gemini-2.0-flash",
    name="dice_agent",
    description="Rolls dice with any number of sides and checks numbers for being prime.",
    instruction="""
      You roll dice and answer questions about the outcome.
      The rolls of this session so far: {rolls?}
      When you are asked to roll, call roll_die with the number of sides. Never roll on your own.
    """,
    tools=[roll_die, check_prime],
    before_agent_callback=[count_turns],
    after_tool_callback=log_tool,
    generate_content_config=types.GenerateContentConfig(
        temperature=0.2,
        safety_settings=[
            types.SafetySetting(  # avoid false alarms about rolling dice
                category=types.HarmCategory.HARM_CATEGORY_DANGEROUS_CONTENT,
                threshold=types.HarmBlockThreshold.OFF,
            ),
        ],
    ),
)
