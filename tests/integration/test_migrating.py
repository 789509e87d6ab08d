"""docs/use/migrating.md: its error lines are those that the code gives."""

import importlib
import re
import time
from collections.abc import AsyncGenerator, Callable
from types import SimpleNamespace
from typing import Any

import pytest

from durable_adk.agents import BaseAgent, InvocationContext, LlmAgent, SequentialAgent
from durable_adk.client.answers import save_credentials
from durable_adk.events import Event
from durable_adk.models import ScriptedModel
from durable_adk.runners import InMemoryRunner
from durable_adk.sessions import SessionKey
from durable_adk.tools import ToolContext
from tests.support.pausing import auth_config
from tests.support.required import ROOT
from tests.support.scripts import call, send

DOCUMENT = (ROOT / "docs" / "use" / "migrating.md").read_text()
ERRORS = DOCUMENT.partition("## When it is imported")[2].partition("## When it behaves")[0]
BLOCKS = re.findall(r"^```\n(.*?)^```$", ERRORS, re.MULTILINE | re.DOTALL)
LINES = [line for block in BLOCKS for line in block.splitlines()]
assert len(LINES) >= 9


class Clock(BaseAgent):
    async def _run_async_impl(self, ctx: InvocationContext) -> AsyncGenerator[Event, None]:
        time.time()
        yield Event(author=self.name)


class Reader(BaseAgent):
    async def _run_async_impl(self, ctx: InvocationContext) -> AsyncGenerator[Event, None]:
        yield Event(author=self.name, custom_metadata={"events": len(ctx.session.events)})


class Half(BaseAgent):
    async def _run_async_impl(self, ctx: InvocationContext) -> AsyncGenerator[Event, None]:
        yield Event(author=self.name, partial=True)


def s1(tool_context: ToolContext) -> None:
    """Write what is no JSON."""
    tool_context.state["x"] = {1}


def s2() -> Any:
    """Return what is no JSON."""
    return object()


def fine() -> LlmAgent:
    return LlmAgent(name="a", model=ScriptedModel(replies=["hi"]))


def named_twice() -> BaseAgent:
    inner = SequentialAgent(name="t", sub_agents=[fine()])
    return SequentialAgent(name="s", sub_agents=[fine(), inner])


def calling(tool: Callable[..., Any]) -> BaseAgent:
    return LlmAgent(name="a", model=ScriptedModel(replies=[call(tool.__name__)]), tools=[tool])


AGENTS: dict[str, Callable[[], BaseAgent]] = {
    "AgentDefinitionError: No model": lambda: LlmAgent(name="a"),
    "Agent name": named_twice,
    "DeterminismError": lambda: Clock(name="c"),
    "NotInLoopError": lambda: Reader(name="c"),
    "StateValueError": lambda: calling(s1),
    "ToolResultError": lambda: calling(s2),
    "InvalidRequestError: Only a whole event": lambda: Half(name="c"),
}
"""What leads to a line, by its beginning."""


async def provoke(line: str) -> None:
    """Do what leads to a line."""
    if line.startswith("ModuleNotFoundError"):
        importlib.import_module("durable_adk.models.lite_llm")
    if "credential_service" in line:
        answer: Any = SimpleNamespace(credential=auth_config())
        await save_credentials(None, SessionKey("app", "u", "s"), [answer])
    make = next((made for start, made in AGENTS.items() if line.startswith(start)), fine)
    async with InMemoryRunner(agent=make()) as runner:
        if "run_live" in line:
            runner.run_live(user_id="u", session_id="s")
        await send(runner)


@pytest.mark.parametrize("line", LINES)
async def test_an_error_line_is_what_the_code_says(line: str) -> None:
    """Who searches for what they see finds the page."""
    with pytest.raises(Exception) as caught:  # noqa: PT011  # the line says which
        await provoke(line)
    assert line in f"{type(caught.value).__name__}: {caught.value}"
