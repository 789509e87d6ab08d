"""The apps that a campaign runs; every invocation of them has one expected outcome.

Control run, client and workers build them over a run's folder; their model is `model_stub`.
"""

import asyncio
import hashlib
import random
import uuid
from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from google.genai import types

from campaign.journals import RunFolder, note
from durable_adk.agents import BaseAgent, InvocationContext, LlmAgent, ParallelAgent
from durable_adk.apps import App
from durable_adk.context import ToolContext
from durable_adk.events import Event, EventActions
from durable_adk.messages import WhenBusy
from durable_adk.models import Gemini
from durable_adk.tools import FunctionTool

STEADY = (
    "plain",
    "scoped",
    "triple",
    "transfer",
    "parallel",
    "count",
    "steps",
    "once",
    "approval",
    "failing",
)
"""The apps whose invocations always end alike."""
ONCE = "once"
"""The app whose tool runs once at most: its agent may be told that nobody knows what came of it."""
SLOW = "slow"
"""The app whose invocations are cancelled, terminated, interrupted, refused and steered."""
KINDS = (*STEADY, SLOW)
NAP = 1.5
"""Seconds that the tool of ``slow`` takes."""
PAYING = 0.4
"""Seconds that the tool of ``once`` takes."""
COUNTED = 4
"""Events of the custom agent without steps."""
DRAWN = 6
"""Steps of the other one."""
RIVALS = (
    *(WhenBusy.STEER, WhenBusy.STEER, WhenBusy.INTERRUPT, WhenBusy.INTERRUPT),
    *(WhenBusy.ENQUEUE, WhenBusy.REJECT),
)
"""What messages want that come while their session is busy."""


class Turn(NamedTuple):
    """One message of one session."""

    app: str
    user: str
    session: str
    number: int
    """1, 2 ... within the session."""

    @property
    def invocation(self) -> str:
        """Its id: unique in the run, and the same however often it is sent."""
        return f"{self.session}.{self.number}"

    @property
    def approves(self) -> bool:
        """Whether what it asks for is approved; every second is not."""
        return self.number % 2 == 1

    @property
    def cancelled_after(self) -> float | None:
        """Seconds after which its client cancels it; None: never."""
        if self.app != SLOW:
            return None
        dice = self._dice("cancel")
        return dice.uniform(0.2, 2.0) if dice.random() < 0.4 else None

    @property
    def rival_after(self) -> float | None:
        """Seconds after which the session's next message comes beside it; None: when it is over."""
        if self.app != SLOW or self.number % 2 == 0:
            return None
        dice = self._dice("rival")
        return dice.uniform(0.1, 1.5) if dice.random() < 0.5 else None

    @property
    def when_busy(self) -> WhenBusy:
        """What it wants if its session is busy."""
        if self.app != SLOW or self._replace(number=self.number - 1).rival_after is None:
            return WhenBusy.ENQUEUE
        return self._dice("busy").choice(RIVALS)

    def _dice(self, what: str) -> random.Random:
        """Of its id, so the same for each try."""
        return random.Random(f"{self.invocation}/{what}")  # noqa: S311 - dice are no secrets


@dataclass(frozen=True)
class Tools:
    """The tools; each notes in the ledger when it begins and when it has taken effect."""

    folder: RunFolder

    async def charge(self, amount: int, nonce: str, tool_context: ToolContext) -> dict[str, Any]:
        """Charge the card."""
        await self._work(tool_context, "charge", nonce)
        total = tool_context.state.get("total", 0) + amount
        tool_context.state["total"] = total
        return {"total": total, "nonce": nonce}

    async def scope(self, amount: int, nonce: str, tool_context: ToolContext) -> dict[str, Any]:
        """Write to each scope of the state."""
        await self._work(tool_context, "scope", nonce)
        state, session = tool_context.state, tool_context.session.id
        state[f"app:{session}"] = state.get(f"app:{session}", 0) + amount
        state[f"user:{session}"] = state.get(f"user:{session}", 0) + amount * 2
        state["user:noted"] = nonce
        state["temp:scratch"] = nonce
        state["kept"] = {"nonce": nonce, "amount": amount}
        return {"kept": amount}

    async def mark(self, side: str, nonce: str, tool_context: ToolContext) -> dict[str, Any]:
        """Count on one side."""
        await self._work(tool_context, "mark", nonce)
        tool_context.state[side] = tool_context.state.get(side, 0) + 1
        return {side: tool_context.state[side]}

    async def late(self, nonce: str, tool_context: ToolContext) -> str:
        """Be slower than the others of a turn."""
        await asyncio.sleep(0.3)
        await self._work(tool_context, "late", nonce)
        return "late"

    async def refund(self, amount: int, nonce: str, tool_context: ToolContext) -> dict[str, Any]:
        """Give money back; somebody has to approve it."""
        await self._work(tool_context, "refund", nonce)
        tool_context.state["refunded"] = tool_context.state.get("refunded", 0) + amount
        return {"refunded": amount, "nonce": nonce}

    async def pay(self, amount: int, nonce: str, tool_context: ToolContext) -> dict[str, Any]:
        """Pay, by a way that knows no keys."""
        await self._work(tool_context, "pay", nonce, PAYING)
        return {"paid": amount, "nonce": nonce}

    async def fail(self, nonce: str, tool_context: ToolContext) -> str:
        """Break."""
        await self._work(tool_context, "fail", nonce)
        raise RuntimeError("as always")

    async def nap(self, nonce: str, tool_context: ToolContext) -> str:
        """Take long."""
        await self._work(tool_context, "nap", nonce, NAP)
        tool_context.state["rested"] = nonce
        return "rested"

    async def _work(
        self, context: ToolContext, tool: str, nonce: str, seconds: float | None = None
    ) -> None:
        key = context.idempotency_key
        line = {
            "tool": tool,
            "key": key,
            "nonce": nonce,
            "invocation": context.invocation_id,
            "user": context.session.user_id,
            "session": context.session.id,
        }
        note(self.folder.ledger, durable=True, phase="begun", **line)
        await asyncio.sleep(_pause(key) if seconds is None else seconds)
        note(self.folder.ledger, durable=True, phase="done", **line)


def _pause(key: str) -> float:
    """Up to 0.15 s, the same for each attempt."""
    return hashlib.sha256(key.encode()).digest()[0] / 255 * 0.15


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
        await asyncio.sleep(_pause(f"{invocation}/{step}"))
        nonce = f"~{uuid.uuid4().hex[:8]}"
        what: dict[str, Any] = {"agent": self.name, "invocation": invocation, "step": step}
        note(self.asked, nonce=nonce, paired=True, **what)
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


def make_apps(folder: Path) -> dict[str, App]:
    """The apps by name; the model's stub must have said where it is."""
    run = RunFolder(folder)
    tools = Tools(run)
    model = Gemini(base_url=(folder / "model.url").read_text(), api_key="none", timeout=10)  # pyright: ignore[reportArgumentType]: pydantic makes a secret of it
    roots = {**_roots(tools, _agents(model)), "steps": Drawer(name="drawer", asked=run.asked)}
    return {kind: App(name=kind, root_agent=roots[kind]) for kind in KINDS}


MakeAgent = Callable[..., LlmAgent]


def _agents(model: Gemini) -> MakeAgent:
    def make(name: str, **options: Any) -> LlmAgent:
        return LlmAgent(name=name, model=model, instruction=f"agent:{name}", **options)

    return make


def _roots(tools: Tools, make: MakeAgent) -> dict[str, BaseAgent]:
    helper = make("helper", description="helps", tools=[tools.charge])
    sides: list[BaseAgent] = [make(side, tools=[tools.mark]) for side in ("left", "right")]
    return {
        "plain": make("cashier", tools=[tools.charge]),
        "scoped": make("scoped", tools=[tools.charge, tools.scope]),
        "triple": make("tripler", tools=[tools.charge, tools.late]),
        "transfer": make("greeter", sub_agents=[helper]),
        "parallel": ParallelAgent(name="both", sub_agents=sides),
        "count": Counter(name="counter"),
        "once": make("payer", tools=[FunctionTool(tools.pay, contract="at_most_once")]),
        "approval": make("approver", tools=[FunctionTool(tools.refund, require_confirmation=True)]),
        "failing": make("failer", tools=[tools.fail]),
        "slow": make("sleeper", tools=[tools.nap]),
    }
