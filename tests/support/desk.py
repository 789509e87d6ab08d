"""An agent whose tools wait for people, as a file that commands load."""

DESK = '''
from google.genai import types

from durable_adk.agents import LlmAgent
from durable_adk.auth import AuthConfig
from durable_adk.models import ScriptedModel
from durable_adk.tools import FunctionTool
from durable_adk.tools.long_running_tool import LongRunningFunctionTool
from durable_adk.tools.tool_context import ToolContext

KEY = AuthConfig(auth_scheme={"type": "apiKey", "in": "header", "name": "X-Key"})


def refund(amount: int) -> dict:
    """Give money back."""
    with open("refunds.txt", "a") as file:
        file.write(f"{amount}\\n")
    return {"refunded": amount}


def seats(tool_context: ToolContext) -> dict:
    """Take seats, as many as somebody says."""
    decision = tool_context.tool_confirmation
    if decision is None:
        tool_context.request_confirmation(hint="How many?", payload={"seats": 0})
        return {"status": "asked"}
    return {"taken": decision.payload}


def order(item: str) -> None:
    """Order something; the shop answers later."""


async def mail(tool_context: ToolContext) -> dict | None:
    """Send a mail, with the user's key."""
    found = tool_context.get_auth_response(KEY)
    if found is None:
        tool_context.request_credential(KEY)
        return None
    return {"sent_with": len(found.api_key)}


def call(name, **args):
    part = types.Part(function_call=types.FunctionCall(name=name, args=args))
    return types.Content(role="model", parts=[part])


def reply(request):
    last = request.contents[-1].parts[0]
    if last.function_response:
        return f"That was it: {last.function_response.response}"
    args = {"refund": {"amount": 5}, "order": {"item": "tea"}}.get(last.text, {})
    return call(last.text, **args)


root_agent = LlmAgent(
    name="desk",
    model=ScriptedModel(replies=reply),
    tools=[
        FunctionTool(refund, require_confirmation=True),
        LongRunningFunctionTool(order),
        seats,
        mail,
    ],
)
'''
"""Its user says the name of a tool, and it calls that tool."""
