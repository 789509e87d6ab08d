"""The apps that the chaos tests run, and the files their tools and models leave traces in.

Control run, client and workers build them over a folder each; whatever is not in the folder must
come out the same everywhere.
"""

import asyncio
import hashlib
import json
import math
from collections import Counter
from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from google.genai import types
from temporalio import activity

from durable_adk.agents import BaseAgent, InvocationContext, LlmAgent
from durable_adk.apps import App, EventsCompactionConfig
from durable_adk.apps.base_events_summarizer import BaseEventsSummarizer
from durable_adk.code_executors import SubprocessCodeExecutor
from durable_adk.context.activity import ToolContext
from durable_adk.events import Event, EventActions
from durable_adk.events.event_compaction import compaction_event
from durable_adk.failpoints import failpoint
from durable_adk.models import ScriptedModel
from durable_adk.models.llm_request import LlmRequest
from durable_adk.models.llm_response import LlmResponse
from durable_adk.plugins import BasePlugin
from durable_adk.tools import FunctionTool
from harness.journal import note, notes
from tests.support.scripts import call, calls
from tests.support.waiting import until, until_true

NAP = 4.0
"""Seconds the custom agent sleeps between its two events."""


@dataclass(frozen=True)
class Traces:
    """What the processes of one test did, in files that survive them."""

    folder: Path

    def note(self, tool: str, key: str) -> None:
        """Write down that a tool began."""
        note(self.folder / "ledger", tool=tool, key=key)

    def take_effect(self, key: str) -> None:
        """Change the world outside, unless it was changed under this key before."""
        name = hashlib.sha256(key.encode()).hexdigest()
        (self.folder / f"effect-{name}").touch()

    def runs(self, tool: str = "") -> list[dict[str, Any]]:
        """The beginnings of tools, oldest first."""
        lines = notes(self.folder / "ledger")
        return [line for line in lines if tool in ("", line["tool"])]

    @property
    def effects(self) -> int:
        """How often the world outside was changed."""
        return len(list(self.folder.glob("effect-*")))

    @property
    def asked(self) -> dict[int, int]:
        """How often the model was asked for each of its turns."""
        return dict(Counter(json.loads(line)["index"] for line in self._lines("model")))

    @property
    def hits(self) -> list[str]:
        """The failpoints that were hit, oldest first."""
        return [line.partition(" ")[0] for line in self._lines("failpoints")]

    @property
    def gate(self) -> Path:
        """The gated tools and models wait until this file is there."""
        return self.folder / "gate"

    def open_gate(self) -> None:
        """Let them continue."""
        self.gate.touch()

    async def through_gate(self) -> None:
        """Wait until the gate is open."""
        await until(self.gate.exists, math.inf)  # another process opens it

    def _lines(self, name: str) -> list[str]:
        path = self.folder / name
        return path.read_text().splitlines() if path.exists() else []


class GatedModel(ScriptedModel):
    """A model that thinks until the gate opens."""

    traces: Any

    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        """See base class."""
        self.traces.note("model", "model")
        await self.traces.through_gate()
        async for response in super().generate_content_async(llm_request, stream):
            yield response


class Napper(BaseAgent):
    """A custom agent that is idle for a while between its two events."""

    async def _run_async_impl(self, ctx: InvocationContext) -> AsyncGenerator[Event, None]:
        yield self._says("good night")
        await asyncio.sleep(NAP)
        yield self._says("good morning")

    def _says(self, text: str) -> Event:
        content = types.Content(role="model", parts=[types.Part(text=text)])
        return Event(
            author=self.name, content=content, actions=EventActions(state_delta={"said": text})
        )


class Tally(BaseAgent):
    """A custom agent whose events depend on the state it finds."""

    async def _run_async_impl(self, ctx: InvocationContext) -> AsyncGenerator[Event, None]:
        for _ in range(3):
            count = ctx.session.state.get("count", 0) + 1
            yield Event(author=self.name, actions=EventActions(state_delta={"count": count}))


class Burster(BaseAgent):
    """A custom agent whose events come without any step between them: one workflow task."""

    async def _run_async_impl(self, ctx: InvocationContext) -> AsyncGenerator[Event, None]:
        for text in ("one", "two", "three", "four"):
            content = types.Content(role="model", parts=[types.Part(text=text)])
            yield Event(author=self.name, content=content)


@dataclass(frozen=True)
class Hook:
    """A plugin's hook that leaves a trace."""

    traces: Traces
    name: str

    async def __call__(self, invocation_context: Any, **given: Any) -> Any:
        """Change what may be changed at this place."""
        self.traces.note(self.name, invocation_context.invocation_id)
        match given:
            case {"user_message": message}:
                message.parts.append(types.Part(text="and plugged"))
            case {"event": event}:
                event.custom_metadata = {"seen": True}
            case _:
                invocation_context.state[self.name] = True


def plugged(agent: BaseAgent, traces: Traces) -> App:
    """An app with hooks round the run and its events."""
    plugin = BasePlugin("traced")
    for name in ("on_user_message", "before_run", "on_event", "after_run"):
        setattr(plugin, f"{name}_callback", Hook(traces, name))
    return App(name="plugged", root_agent=agent, plugins=[plugin])


@dataclass(frozen=True)
class Summarizer(BaseEventsSummarizer):
    """Leaves a trace, and then says how much it has received."""

    traces: Traces

    async def maybe_summarize_events(self, *, events: Sequence[Event]) -> Event | None:
        """See the base class."""
        self.traces.note("summarizer", events[0].invocation_id)
        words = types.Part(text=f"{len(events)} events")
        return compaction_event(events, types.Content(role="model", parts=[words]))


def summed(model: ScriptedModel, traces: Traces) -> App:
    """An app whose sessions are summarised after every invocation."""
    config = EventsCompactionConfig(
        compaction_interval=1, overlap_size=0, summarizer=Summarizer(traces)
    )
    agent = LlmAgent(name="talker", model=model.model_copy(update={"replies": ["Hi."] * 3}))
    return App(name="summed", root_agent=agent, events_compaction_config=config)


class TracingExecutor(SubprocessCodeExecutor):
    """Runs code in a process, which dies with the worker that dies behind it."""

    allow_unsafe: bool = True
    traces: Traces

    async def execute_code(self, invocation_context: Any, code_execution_input: Any) -> Any:
        self.traces.note("code", code_execution_input.execution_id)
        result = await super().execute_code(invocation_context, code_execution_input)
        failpoint("code.halfway")
        return result


async def _is_last_step() -> bool:
    """Whether Temporal, if it runs this, knows the results of all other steps under way."""
    if not activity.in_activity():
        return True
    workflow = activity.client().get_workflow_handle(activity.info().workflow_id)
    return len((await workflow.describe()).raw_description.pending_activities) == 1


def chaos_apps(folder: Path) -> dict[str, App]:
    """The apps by name, with their traces in `folder`."""
    traces = Traces(folder)

    async def charge(amount: int, tool_context: ToolContext) -> dict[str, int]:
        """Charge the card, once for each key."""
        traces.note("charge", tool_context.idempotency_key)
        failpoint("tool.halfway")
        traces.take_effect(tool_context.idempotency_key)
        total = tool_context.state.get("total", 0) + amount
        tool_context.state["total"] = total
        return {"total": total}

    async def patient(tool_context: ToolContext) -> str:
        """Wait for the gate."""
        traces.note("patient", tool_context.idempotency_key)
        await traces.through_gate()
        traces.take_effect(tool_context.idempotency_key)
        return "through"

    def blocked(tool_context: ToolContext) -> str:
        """Wait for the gate in a way that no cancellation reaches."""
        traces.note("blocked", tool_context.idempotency_key)
        until_true(traces.gate.exists, patience=math.inf)
        return "through"

    async def late(tool_context: ToolContext) -> str:
        """Die after the siblings of the turn are done."""
        traces.note("late", tool_context.idempotency_key)
        await until(_is_last_step)
        failpoint("tool.late")
        return "late"

    log = folder / "model"
    charging = ScriptedModel(log=log, replies=[call("charge", amount=10), "Charged."] * 6)
    tripling = ScriptedModel(
        log=log,
        replies=[calls(("charge", {"amount": 1}), ("late", {}), ("charge", {"amount": 2})), "All."],
    )
    waiting = ScriptedModel(log=log, replies=[call("patient"), "Done.", "Next."])
    blocking = ScriptedModel(log=log, replies=[call("blocked"), "Done.", "Next."])
    thinking = GatedModel(log=log, traces=traces, replies=["Thought.", "Next."])
    calling = GatedModel(log=log, traces=traces, replies=[call("patient"), "Done.", "Next."])
    agents: dict[str, BaseAgent] = {
        "charge": LlmAgent(name="cashier", model=charging, tools=[charge]),
        "audited": LlmAgent(
            name="cashier",
            model=charging,
            tools=[charge],
            # So the loop cannot know at the last text that it is the end, and closes by itself.
            after_agent_callback=lambda callback_context: None,
        ),
        "code": LlmAgent(
            name="coder",
            model=ScriptedModel(log=log, replies=["```python\nprint(42)\n```", "It is 42."]),
            code_executor=TracingExecutor(traces=traces),
        ),
        "approval": LlmAgent(
            name="cashier", model=charging, tools=[FunctionTool(charge, require_confirmation=True)]
        ),
        "triple": LlmAgent(name="cashier", model=tripling, tools=[charge, late]),
        "tool": LlmAgent(name="waiter", model=waiting, tools=[patient]),
        "blocked": LlmAgent(name="waiter", model=blocking, tools=[blocked]),
        "model": LlmAgent(name="thinker", model=thinking),
        "caller": LlmAgent(name="thinker", model=calling, tools=[patient]),
        "count": Tally(name="counter"),
        "nap": Napper(name="napper"),
        "burst": Burster(name="burster", before_agent_callback=lambda callback_context: None),
    }
    cashier = LlmAgent(name="cashier", model=charging, tools=[charge])
    apps = {name: App(name=name, root_agent=agent) for name, agent in agents.items()}
    return apps | {"plugged": plugged(cashier, traces), "summed": summed(charging, traces)}
