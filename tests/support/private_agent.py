"""An agent that handles secrets: one canary for each place where user data can be."""

from typing import Any

from google.genai import types

from durable_adk.agents import LlmAgent
from durable_adk.agents.callback_context import CallbackContext
from durable_adk.apps import App
from durable_adk.models import LlmRequest, ScriptedModel
from durable_adk.tools import FunctionTool, ToolContext

KINDS = (
    "message",
    "state",
    "argument",
    "result",
    "temp",
    "artifact",
    "answer",
    "exception",
    "callback",
    "approval",
)


def canary(kind: str) -> str:
    """What is searched for."""
    return f"canary-{kind}-7c1d"


async def keep(text: str, tool_context: ToolContext) -> dict[str, str]:
    """Keep something."""
    tool_context.state["temp:note"] = canary("temp")
    tool_context.state["user:name"] = canary("state")
    await tool_context.save_artifact("note.txt", types.Part(text=canary("artifact")))
    return {"kept": canary("result"), "length": str(len(text))}


def broken() -> None:
    """Break."""
    raise ValueError(canary("exception"))


def pay(tool_context: ToolContext) -> dict[str, str]:
    """Pay, when somebody says so."""
    assert tool_context.tool_confirmation
    return {"paid": str(bool(tool_context.tool_confirmation.payload))}


def failing(callback_context: CallbackContext, llm_request: LlmRequest) -> None:
    """A callback with a bug."""
    del callback_context
    if "callback" in _asked(llm_request):
        raise RuntimeError(canary("callback"))


def _asked(request: LlmRequest) -> str:
    """The user's last words."""
    said = [
        part.text
        for content in request.contents
        if content.role == "user"
        for part in content.parts or []
        if part.text
    ]
    return said[-1] if said else ""


def reply(request: LlmRequest) -> Any:
    """Call what the message asks for, and then say something."""
    last = (request.contents[-1].parts or [])[-1]
    if last.function_response is not None:
        return canary("answer")
    name = _asked(request).split()[0]
    args = {"text": canary("argument")} if name == "keep" else {}
    part = types.Part(function_call=types.FunctionCall(name=name, args=args))
    return types.Content(role="model", parts=[part])


app = App(
    name="private",
    root_agent=LlmAgent(
        name="private",
        model=ScriptedModel(replies=reply),
        tools=[keep, broken, FunctionTool(pay, require_confirmation=True)],
        before_model_callback=failing,
    ),
)
