"""The agents of the benchmarks: tool calls, then text, in every turn."""

from collections.abc import AsyncGenerator
from typing import Any

from benchmarks.task import get_capital, reply
from durable_adk.agents import LlmAgent
from durable_adk.apps import App
from durable_adk.models import BaseLlm, LlmRequest, LlmResponse


class CapitalModel(BaseLlm):
    """The model of all systems; unlike `ScriptedModel` it keeps no request."""

    model: str = "capital"

    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        """See base class."""
        del stream
        yield LlmResponse(content=reply(llm_request.contents))


def apps() -> list[App]:
    """The app, one that shows the model the current turn only, and one with batches of steps."""
    return [
        App(name="bench", root_agent=_agent()),
        App(name="short", root_agent=_agent(include_contents="none")),
        App(name="batch", root_agent=_agent(), steps_per_activity=20),
    ]


def _agent(**fields: Any) -> LlmAgent:
    return LlmAgent(name="g", model=CapitalModel(), tools=[get_capital], **fields)
