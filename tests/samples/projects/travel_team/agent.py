from typing import Any, Dict, Optional

from google.adk.agents import Agent, LlmAgent
from google.adk.agents.callback_context import CallbackContext
from google.adk.models.llm_request import LlmRequest
from google.adk.models.llm_response import LlmResponse
from google.adk.tools.base_tool import BaseTool
from google.adk.tools.tool_context import ToolContext
from google.genai import types

from .tools import book_flight, say_goodbye, say_hello

MODEL = "gemini-2.0-flash"


def block_word(
    callback_context: CallbackContext, llm_request: LlmRequest
) -> Optional[LlmResponse]:
    """Answers in the model's place if the last message has a word that is not allowed."""
    last = ""
    for content in reversed(llm_request.contents):
        if content.role == "user" and content.parts and content.parts[0].text:
            last = content.parts[0].text
            break
    if "BLOCK" in last.upper():
        callback_context.state["guardrail_block_word"] = True
        return LlmResponse(
            content=types.Content(
                role="model", parts=[types.Part(text="I cannot talk about that.")]
            )
        )
    return None


def block_atlantis(
    tool: BaseTool, args: Dict[str, Any], tool_context: ToolContext
) -> Optional[Dict]:
    if tool.name == "book_flight" and args.get("city", "").lower() == "atlantis":
        tool_context.state["guardrail_block_city"] = True
        return {"status": "error", "error_message": "Nobody flies to Atlantis."}
    return None


greeting_agent = Agent(
    model=MODEL,
    name="greeting_agent",
    instruction="You are the greeter. Greet the user with say_hello and do nothing else.",
    description="Greets.",
    tools=[say_hello],
)

farewell_agent = Agent(
    model=MODEL,
    name="farewell_agent",
    instruction="You are the one who says goodbye, with say_goodbye.",
    description="Says goodbye.",
    tools=[say_goodbye],
    disallow_transfer_to_peers=True,
)

flight_agent = LlmAgent(
    model=MODEL,
    name="flight_agent",
    instruction="You book flights with book_flight. The user's class is {seat_class?}.",
    description="Books flights.",
    tools=[book_flight],
    before_tool_callback=block_atlantis,
    output_key="last_booking",
)

root_agent = Agent(
    name="travel_team",
    model=MODEL,
    description="Plans travels.",
    global_instruction="You work for the agency Far Away.",
    instruction="You are the coordinator. Hand greetings, goodbyes and flights to your team.",
    sub_agents=[greeting_agent, farewell_agent, flight_agent],
    before_model_callback=block_word,
)
