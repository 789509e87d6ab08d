"""The apps that a campaign runs.

Control run, client and workers build them over a run's folder; their model is `model_stub`. There
are two releases of them, between which everybody may be moved at any time (I20).
"""

import asyncio
import os
import uuid
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from pathlib import Path
from typing import Any

from google.genai import types
from pydantic import SecretStr

from campaign.graphs import graphs
from campaign.run_folder import RunFolder
from campaign.tools import KeepingTools, PoisonTools, RaisingTools, Tools, blow, blows, pause, task
from campaign.workload import (
    CLEARED,
    CROWD,
    DENIED,
    FILES,
    KINDS,
    MEMORY,
    ONCE,
    POISON,
    RAISING,
    SECRET,
    SIGN_IN,
    SLOW,
    TIMED,
    Place,
    Turn,
)
from durable_adk.agents import BaseAgent, InvocationContext, LlmAgent, ParallelAgent
from durable_adk.apps import App
from durable_adk.events import Event, EventActions
from durable_adk.graph.base_node import BaseNode
from durable_adk.models import Gemini, LlmRequest, LlmResponse
from durable_adk.tools import FunctionTool
from durable_adk.wire.run_config import Budget
from harness.journal import note

COUNTED = 4
"""Events of the custom agent without steps."""
DRAWN = 6
"""Steps of the other one."""
MODEL_CALLS = 4
"""That the app with a budget has."""
MODEL_KEY = f"{SECRET}of-the-model"
"""Text that workers show to the model only (I23)."""
ASKER = "x-asker"
"""The header of a model's request that says which process asks, in which attempt; see `task`."""
MODEL_TIMEOUT = 30.0
"""Seconds until a model that does not answer is asked again; only a dead connection takes as long.
"""
SECOND = "Release 2."
"""What prompts say besides in the second release."""


class Asking(Gemini):
    """A model whose requests name the attempt that sends them."""

    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        """See the base class."""
        request = llm_request.snapshot()
        request.config.http_options = types.HttpOptions(headers={ASKER: f"{os.getpid()}:{task()}"})
        async with aclosing(super().generate_content_async(request, stream)) as responses:
            async for response in responses:
                yield response


class Counter(BaseAgent):
    """A custom agent whose events depend on the state it finds, with no step between them."""

    async def _run_async_impl(self, ctx: InvocationContext) -> AsyncGenerator[Event, None]:
        for _ in range(COUNTED):
            count = ctx.session.state.get("count", 0) + 1
            yield Event(author=self.name, actions=EventActions(state_delta={"count": count}))


class Drawer(BaseAgent):
    """A custom agent that draws numbers, which differ each time, in steps of its own."""

    asked: Path
    """Where it is noted what was drawn, as the model's answers are."""

    async def draw(self, invocation: str, step: int) -> str:
        """Draw a number."""
        await asyncio.sleep(pause(f"{invocation}/{step}"))
        nonce = f"~{uuid.uuid4().hex[:8]}"
        what: dict[str, Any] = {"agent": self.name, "invocation": invocation, "step": step}
        note(self.asked, nonce=nonce, paired=True, task=task(), **what)
        return nonce

    async def _run_async_impl(self, ctx: InvocationContext) -> AsyncGenerator[Event, None]:
        for step in range(DRAWN):
            nonce = await ctx.step(self.draw, ctx.invocation_id, step)
            delta = {"drawn": ctx.session.state.get("drawn", 0) + 1, "last": nonce}
            yield Event(
                author=self.name,
                content=types.Content(role="model", parts=[types.Part(text=f"Drawn {nonce}")]),
                actions=EventActions(state_delta=delta),
            )


class Raiser(BaseAgent):
    """A custom agent that raises in the workflow's loop, or leaves that to its sub-agent."""

    async def _run_async_impl(self, ctx: InvocationContext) -> AsyncGenerator[Event, None]:
        turn = Turn.of(ctx.session.app_name, ctx.session.user_id, ctx.invocation_id)
        match turn.place:
            case Place.BODY:
                blow(turn.raised)
            case Place.BODY_TASK:
                await asyncio.create_task(blows(turn.raised))
            case Place.BODY_TIMER:
                asyncio.get_running_loop().call_later(TIMED / 2, blow, turn.raised)
                await asyncio.sleep(TIMED)
            case _:
                pass
        async with aclosing(self.sub_agents[0].run_async(ctx)) as events:
            async for event in events:
                yield event


def make_apps(folder: Path, release: int = 1) -> dict[str, App]:
    """The apps by name; the model's stub must have said where it is."""
    run = RunFolder(folder)
    url = (folder / "model.url").read_text()
    model = Asking(base_url=url, api_key=SecretStr(MODEL_KEY), timeout=MODEL_TIMEOUT)
    roots = {
        **_roots(run, _agents(model, release, Tools(run)), asks=release == 1),
        "steps": Drawer(name="drawer", asked=run.asked),
    }
    budgets = {"budget": Budget(model_calls=MODEL_CALLS)}
    return {
        kind: App(name=kind, root_agent=roots[kind], budget=budgets.get(kind)) for kind in KINDS
    }


MakeAgent = Callable[..., LlmAgent]


def _agents(model: Gemini, release: int, own: Tools) -> MakeAgent:
    def make(name: str, tools: list[Any] | None = None, **options: Any) -> LlmAgent:
        instruction, tools = f"agent:{name}", tools or []
        if release > 1:
            instruction, tools = f"{instruction}\n{SECOND}", [*tools, own.idle]
            options |= {"before_model_callback": _look_on, "after_tool_callback": _listen}
        return LlmAgent(name=name, model=model, instruction=instruction, tools=tools, **options)

    return make


async def _look_on(**_: Any) -> None:
    """A callback that changes nothing; one of an agent would take the number of an event."""


async def _listen(**_: Any) -> None:
    """Another one."""


def _roots(run: RunFolder, make: MakeAgent, *, asks: bool) -> dict[str, BaseNode]:
    tools, keeping = Tools(run), KeepingTools(run)
    refund = FunctionTool(tools.refund, require_confirmation=True)
    denied = FunctionTool(tools.refund, require_confirmation=asks)
    helper = make("helper", description="helps", tools=[tools.charge])
    sides: list[BaseAgent] = [make(side, tools=[tools.mark]) for side in ("left", "right")]
    return {
        **graphs(run, make("writer")),
        "plain": make("cashier", tools=[tools.charge]),
        "scoped": make("scoped", tools=[tools.charge, tools.scope]),
        "triple": make("tripler", tools=[tools.charge, tools.late]),
        "transfer": make("greeter", sub_agents=[helper]),
        "parallel": ParallelAgent(name="both", sub_agents=sides),
        "count": Counter(name="counter"),
        ONCE: make("payer", tools=[FunctionTool(tools.pay, contract="at_most_once")]),
        "approval": make("approver", tools=[refund]),
        "failing": make("failer", tools=[tools.fail]),
        "budget": make("spender", tools=[tools.charge]),
        FILES: make("filer", tools=[keeping.save, keeping.load]),
        MEMORY: make("keeper", tools=[keeping.remember, keeping.recall]),
        SIGN_IN: make("signer", tools=[keeping.sign_in]),
        POISON: make("poisoner", tools=[PoisonTools(run).poison]),
        RAISING: Raiser(name="body", sub_agents=[_raiser(run, make)]),
        CROWD: make("talker"),
        SLOW: make("sleeper", tools=[tools.nap]),
        DENIED: make("decliner", tools=[denied]),
        CLEARED: make("forgetter", tools=[tools.nap, refund]),
    }


def _raiser(run: RunFolder, make: MakeAgent) -> LlmAgent:
    raising = RaisingTools(run)
    return make("raiser", tools=[raising.raising], before_tool_callback=raising.before)
