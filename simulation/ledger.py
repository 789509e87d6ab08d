"""Side effects of a schedule: which model calls were made, and which tools ran."""

from collections import Counter
from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from google.genai import types
from temporalio import activity

from durable_adk.context.activity import Context, ToolContext
from durable_adk.models import BaseLlm, LlmRequest
from durable_adk.models.llm_request import NOT_BY_THE_USER
from durable_adk.models.llm_response import LlmResponse
from simulation.attempts import gate, performed

TOKENS = 10
"""What each answer costs."""
Reply = str | types.Content
"""What the model says; every ask has its own number at the end of it, so asking again shows."""


class Ran(NamedTuple):
    """A run of a tool."""

    key: str
    call_id: str
    args: str
    revision: int = 0
    """How many events the session had when the loop asked for it."""


class NodeRan(NamedTuple):
    """A run of a node's code."""

    key: str
    path: str
    attempt: int


@dataclass
class Ledger:
    """Of one schedule."""

    asked: list[str] = field(default_factory=list[str])
    """The event each ask was for."""
    runs: list[Ran] = field(default_factory=list[Ran])
    nodes: list[NodeRan] = field(default_factory=list[NodeRan])
    hooks: list[str] = field(default_factory=list[str])
    problems: list[str] = field(default_factory=list[str])

    def note_ask(self, request: LlmRequest) -> int:
        """Write down that the model is asked; which ask it is."""
        now = performed()
        event_id = now.step.event_id if now else "?"
        if now and now.in_vain:
            self.problems.append(f"I10: asked again for {event_id}, which is stored")
        self.problems += [
            f"I9: {problem} in the prompt for {event_id}" for problem in pairs(request)
        ]
        self.asked.append(event_id)
        return len(self.asked)


_LEDGERS = [Ledger()]


def opened() -> Ledger:
    """A new ledger, which everything writes into from now on."""
    _LEDGERS[0] = Ledger()
    return _LEDGERS[0]


def ledger() -> Ledger:
    """The ledger of the schedule that is running."""
    return _LEDGERS[0]


class SimulatedModel(BaseLlm):
    """Answers turn n with reply n, and says which ask it was."""

    model: str = "simulated"
    replies: Sequence[Any] = ()

    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        """Answer, between two gates."""
        await gate("ask.before")
        number = ledger().note_ask(llm_request)
        turn = _turn(llm_request)
        reply = self.replies[turn % len(self.replies)]
        await gate("ask.after")
        yield LlmResponse(
            content=_content(reply, number),
            finish_reason=types.FinishReason.STOP,
            usage_metadata=types.GenerateContentResponseUsageMetadata(total_token_count=TOKENS),
        )


def _turn(request: LlmRequest) -> int:
    """How often the model has spoken since the user's last message."""
    count = 0
    for content in reversed(request.contents):
        parts = content.parts or []
        count += content.role == "model"
        said = content.role == "user" and not any(part.function_response for part in parts)
        if said and not (parts and (parts[0].text or "").startswith(NOT_BY_THE_USER)):
            break
    return count


def _content(reply: Any, number: int) -> types.Content:
    if isinstance(reply, str):
        return types.Content(role="model", parts=[types.Part(text=f"{reply} #{number}")])
    calls = [(name, {**args, "ask": number}) for name, args in reply]
    parts = [
        types.Part(function_call=types.FunctionCall(name=name, args=args)) for name, args in calls
    ]
    return types.Content(role="model", parts=parts)


async def run_tool(context: ToolContext, ask: int, answer: Any = None) -> dict[str, Any]:
    """What every tool of the scenarios does: change the world, and say for which ask."""
    await gate("run.before")
    now = performed()
    event_id = now.step.event_id if now else "?"
    if now and now.in_vain:
        ledger().problems.append(f"I8: ran again for {event_id}, which is stored")
    revision = now.step.revision if now else 0
    ledger().runs.append(Ran(context.idempotency_key, context.function_call_id, str(ask), revision))
    await gate("run.after")
    return {"ask": ask, "done": answer}


async def run_node(context: Context) -> None:
    """What the code of every node of a graph does: it writes down that it runs."""
    await gate("run.before")
    now = performed()
    if now and now.in_vain:
        ledger().problems.append(f"I8: ran again for {now.step.event_id}, which is stored")
    key, path, attempt = context.idempotency_key, context.node_path, context.attempt_count
    ledger().nodes.append(NodeRan(key, path, attempt))
    await gate("run.after")


async def run_activity(ask: int) -> dict[str, Any]:
    """What every activity of others does: the same, knowing nothing but its own id."""
    await gate("run.before")
    key = activity.info().activity_id
    ledger().runs.append(Ran(key, key.rpartition(":")[2], str(ask)))
    await gate("run.after")
    return {"ask": ask}


def pairs(request: LlmRequest) -> list[str]:
    """Where the calls and responses of a prompt do not fit (I9)."""
    counts: Counter[str] = Counter()
    problems: list[str] = []
    for part in (part for content in request.contents for part in content.parts or []):
        if call := part.function_call:
            counts[call.id or call.name or ""] += 1
        if response := part.function_response:
            name = response.id or response.name or ""
            counts[name] -= 1
            if counts[name] < 0:
                problems.append(f"a response without call {name}")
    return problems + [f"no response to call {name}" for name, n in counts.items() if n > 0]
