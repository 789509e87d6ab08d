"""A tool that waits at a gate, so that a message can come while it runs."""

import asyncio
from typing import Any

from google.genai import types

from durable_adk.agents import LlmAgent
from durable_adk.models import LlmRequest, ScriptedModel
from durable_adk.runners import Runner
from durable_adk.tools import ToolContext
from tests.support.scripts import USER, call, gist

GATES: dict[str, asyncio.Event] = {}


async def gate(who: str, tool_context: ToolContext) -> str:
    """A tool that says it has begun, and waits to be let through."""
    tool_context.state["begun"] = who
    GATES.setdefault(f"{who} begun", asyncio.Event()).set()
    opened = GATES.setdefault(who, asyncio.Event())
    while not opened.is_set():  # it is set in another event loop
        await asyncio.sleep(0.02)
    return "through"


def listener(name: str) -> LlmAgent:
    """Waits at its gate, then says what the user has said last."""

    def heard(request: LlmRequest) -> types.Content | str:
        texts = [p.text for c in request.contents if c.role == "user" for p in c.parts if p.text]
        responses = [p for c in request.contents for p in c.parts if p.function_response]
        return f"heard {texts[-1]}" if responses else call("gate", who=name)

    return LlmAgent(name="a", model=ScriptedModel(replies=heard), tools=[gate])


async def until_begun(name: str) -> None:
    """Wait until the tool has begun."""
    async with asyncio.timeout(20):
        while not GATES.setdefault(f"{name} begun", asyncio.Event()).is_set():
            await asyncio.sleep(0.02)


def run(runner: Runner, message: Any, **options: Any) -> "asyncio.Task[list[str]]":
    """A message on its way."""

    async def events() -> list[str]:
        sent = runner.run_async(**USER, new_message=message, **options)
        return [gist(event) async for event in sent]

    return asyncio.create_task(events())
