"""Two versions of an app, the second of which is deployed while the first has work under way."""

import math
import re
import threading
from collections.abc import AsyncGenerator
from dataclasses import dataclass, replace
from typing import Any, Self

from google.genai import types
from pydantic import PrivateAttr

from durable_adk.agents import BaseAgent, LlmAgent, LoopAgent, ParallelAgent, SequentialAgent
from durable_adk.apps import App
from durable_adk.context.activity import CallbackContext, ToolContext
from durable_adk.models import LlmRequest, ScriptedModel
from durable_adk.models.llm_response import LlmResponse
from durable_adk.plugins import BasePlugin
from durable_adk.settings import Limits
from durable_adk.tools import FunctionTool
from tests.support.scripts import call
from tests.support.waiting import QUIET, stays, until

ROOTS = {"sequential": SequentialAgent, "parallel": ParallelAgent}


class Gate:
    """Where the first version is held until it is replaced; it opens for the second."""

    def __init__(self, at: str = "") -> None:
        self._at = at
        self._reached = threading.Event()  # user code has an event loop of its own
        self._opened = threading.Event()

    async def passed(self, at: str) -> None:
        """Come by a place; wait there if it is this gate's."""
        if at == self._at:
            self._reached.set()
            await until(self._opened.is_set, math.inf)

    async def reached(self) -> None:
        """Wait until somebody waits here."""
        await until(self._reached.is_set)

    def open(self) -> None:
        """Let everybody pass."""
        self._opened.set()


@dataclass(frozen=True, kw_only=True)
class Version:
    """What a release of the app is; the fields are what deploys change."""

    gate: Gate
    root: str = "sequential"
    agents: tuple[str, ...] = ("first", "second")
    """The first has tools."""
    prompt: str = "old"
    model: str = "small"
    tools: tuple[str, ...] = ("work",)
    timeout: float | None = None
    contract: str = "at_least_once"
    asks: bool = False
    """Whether the first call waits for an approval."""
    callbacks: tuple[str, ...] = ()
    """Names of agent, model and tool callbacks of the first agent."""
    plugin: tuple[str, ...] = ()
    """Names of the hooks of the app's plugin."""
    output_key: str | None = None
    rounds: int = 2
    """Of a loop."""

    tool_seconds: float = 600.0
    """How long the worker lets a tool run."""

    def limits(self, *, often: bool) -> Limits:
        """The worker's; `often`: the workflow continues as new wherever it may."""
        events = 1 if often else 4000
        return Limits(tool_timeout=self.tool_seconds, max_history_events=events)

    def changed(self, **fields: Any) -> Self:
        """The next release."""
        return replace(self, **fields)

    def app(self) -> App:
        """The app; each call makes another."""
        plugins = [Marker(self.plugin)] if self.plugin else []
        return App(name="app", root_agent=self._root(), plugins=plugins)

    def _root(self) -> BaseAgent:
        agents = [self._agent(name, tools=not at) for at, name in enumerate(self.agents)]
        if self.root == "loop":
            return LoopAgent(name="line", sub_agents=agents, max_iterations=self.rounds)
        return ROOTS[self.root](name="line", sub_agents=agents)

    def _agent(self, name: str, *, tools: bool) -> LlmAgent:
        own = self.callbacks if tools else ()
        return LlmAgent(
            name=name,
            model=Talker(gate=self.gate, kind=self.model, works=tools, name=name),
            instruction=f"prompt={self.prompt}",
            tools=[self._tool(tool) for tool in self.tools] if tools else [],
            output_key=self.output_key if tools else None,
            **{callback: marking(callback) for callback in own},
        )

    def _tool(self, name: str) -> FunctionTool:
        async def work(number: int, tool_context: ToolContext) -> str:
            """Work."""
            if number == 1:
                await self.gate.passed("tool")
            if min(self.timeout or QUIET, self.tool_seconds) < QUIET:
                await stays(lambda: True)  # longer than this release lets it run
            return f"{name}{number}"

        work.__name__ = name
        asks = (lambda number: number == 1) if self.asks and name == "work" else False
        return FunctionTool(
            work, timeout=self.timeout, contract=self.contract, require_confirmation=asks
        )


class Talker(ScriptedModel):
    """Says who it is and which prompt it has, and before, perhaps, has two calls made."""

    kind: str = "small"
    name: str = ""
    works: bool = False

    _gate: Gate = PrivateAttr()

    def __init__(self, *, gate: Gate, **fields: Any) -> None:
        super().__init__(**fields)
        self._gate = gate
        self.replies = self._says

    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        """As a scripted model, with a gate before the second answer."""
        if len(responses(llm_request)) == 1:
            await self._gate.passed("model")
        async for response in super().generate_content_async(llm_request, stream):
            yield response

    def _says(self, request: LlmRequest) -> types.Content | str:
        done = len(responses(request))
        if self.works and done < 2:
            return call("work", number=done + 1)
        prompt = re.search(r"prompt=(\w+)", str(request.config.system_instruction))
        return f"{prompt[1] if prompt else None} {self.kind}"


def responses(request: LlmRequest) -> list[types.FunctionResponse]:
    """What tools have answered since the agent last said something."""
    found: list[types.FunctionResponse] = []
    for content in reversed(request.contents):
        for part in content.parts or []:
            if part.text and content.role == "model":
                return found
            if part.function_response:
                found.append(part.function_response)
    return found


def marking(name: str) -> Any:
    """A callback that leaves its name in the state."""

    def mark(**given: Any) -> None:
        context: CallbackContext = given.get("tool_context") or given["callback_context"]
        context.state[f"{name} ran"] = True

    def agent_mark(callback_context: CallbackContext) -> None:
        mark(callback_context=callback_context)

    def before_model(callback_context: CallbackContext, llm_request: LlmRequest) -> None:
        mark(callback_context=callback_context)

    def after_model(callback_context: CallbackContext, llm_response: LlmResponse) -> None:
        mark(callback_context=callback_context)

    def before_tool(tool: Any, args: Any, tool_context: ToolContext) -> None:
        mark(tool_context=tool_context)

    def after_tool(tool: Any, args: Any, tool_context: ToolContext, tool_response: Any) -> None:
        mark(tool_context=tool_context)

    known = {
        "before_model_callback": before_model,
        "after_model_callback": after_model,
        "before_tool_callback": before_tool,
        "after_tool_callback": after_tool,
    }
    return known.get(name, agent_mark)


class Marker(BasePlugin):
    """A plugin that leaves the names of its hooks in the state."""

    def __init__(self, hooks: tuple[str, ...]) -> None:
        super().__init__("marker")
        for hook in hooks:
            setattr(self, hook, self._mark(hook))

    @staticmethod
    def _mark(hook: str) -> Any:
        async def mark(**given: Any) -> None:
            contexts = ("tool_context", "callback_context", "invocation_context")
            context = next(given[name] for name in contexts if name in given)
            context.state[f"{hook} ran"] = True

        return mark
