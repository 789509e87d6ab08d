"""What scenarios are made of: agents with scripts, and looks at what a model is shown."""

from collections.abc import AsyncGenerator, Callable
from typing import Any

from google.genai import types
from pydantic import Field

from durable_adk.agents import BaseAgent, InvocationContext, LlmAgent
from durable_adk.events import Event, EventActions
from durable_adk.models import LlmRequest, ScriptedModel


def text(value: str) -> types.Content:
    """A model's text."""
    return types.Content(role="model", parts=[types.Part(text=value)])


def speaker(name: str, *replies: Any, **fields: Any) -> LlmAgent:
    """An agent that gives its replies one after the other; without any it says its name."""
    model = ScriptedModel(replies=replies or (lambda _: name))
    return LlmAgent(name=name, description=f"does {name}", model=model, **fields)


def thinker(name: str, reply: Callable[[LlmRequest], Any], **fields: Any) -> LlmAgent:
    """An agent whose reply is a function of the request."""
    return LlmAgent(name=name, model=ScriptedModel(replies=reply), **fields)


def instruction(request: LlmRequest) -> str:
    """What is before the words about the agent's identity in the system instruction."""
    config: Any = request.config  # google-genai's union type names libraries not installed
    return str(config.system_instruction).partition("You are an agent.")[0].strip()


def shown(request: LlmRequest) -> str:
    """All that the model is shown, in short: `user:hello model:tool() user:tool=>{'result': 1}`."""
    return " ".join(
        f"{content.role}:{'+'.join(_short(part) for part in content.parts or [])}"
        for content in request.contents
    )


def _short(part: types.Part) -> str:
    if call := part.function_call:
        return f"{call.name}()"
    if answer := part.function_response:
        return f"{answer.name}=>{answer.response}"
    return "quoted" if (part.text or "").startswith("For context:") else part.text or "blob"


def last(request: LlmRequest) -> str:
    """The last content as `shown` tells it, without its role."""
    return shown(request.model_copy(update={"contents": request.contents[-1:]})).partition(":")[2]


def user_said(context: Any) -> str:
    """The text of the message that the invocation answers."""
    return "".join(part.text or "" for part in context.user_content.parts)


def told_by(context: InvocationContext, **fields: Any) -> Event:
    """An event of the agent that runs, made as ADK's pages show it."""
    return Event(
        author=context.agent.name,
        invocation_id=context.invocation_id,
        branch=context.branch,
        **fields,
    )


def words(event: Event) -> str:
    """The text of an event."""
    return "".join(part.text or "" for part in (event.content and event.content.parts) or [])


class Saying(BaseAgent):
    """A custom agent that yields one event for each text, with the changes passed for it."""

    texts: tuple[str, ...] = ()
    delta: dict[str, Any] = Field(default_factory=dict)
    escalate: bool | None = None

    async def _run_async_impl(self, ctx: InvocationContext) -> AsyncGenerator[Event, None]:
        actions = EventActions(state_delta=dict(self.delta), escalate=self.escalate)
        yield told_by(ctx, actions=actions)
        for each in self.texts:
            yield told_by(ctx, content=text(each))


class Counter(BaseAgent):
    """Counts its runs in the state, escalates at the last, and says one thing more."""

    last: int

    async def _run_async_impl(self, ctx: InvocationContext) -> AsyncGenerator[Event, None]:
        count = ctx.session.state.get(self.name, 0) + 1
        actions = EventActions(state_delta={self.name: count}, escalate=count >= self.last or None)
        yield told_by(ctx, actions=actions)
        yield told_by(ctx, content=text(f"round {count}"))
