"""The agents of the benchmarks: tool calls, then text, in every turn; and graphs of functions."""

from collections.abc import AsyncGenerator
from typing import Any

from benchmarks.task import CHAIN, get_capital, passed_on, reply
from durable_adk.agents import LlmAgent
from durable_adk.apps import App
from durable_adk.events import Event, EventActions
from durable_adk.events.request_input import RequestInput
from durable_adk.models import BaseLlm, LlmRequest, LlmResponse
from durable_adk.workflow import Workflow, node


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
    """The app, one that shows the model the current turn only, one with batches; and graphs."""
    return [
        App(name="bench", root_agent=_agent()),
        App(name="short", root_agent=_agent(include_contents="none")),
        App(name="batch", root_agent=_agent(), steps_per_activity=20),
        App(name="chain", root_agent=_chain()),
        App(name="chain_batch", root_agent=_chain(), steps_per_activity=20),
        App(name="items", root_agent=_items()),
        App(name="loop", root_agent=_loop()),
        App(name="loop_batch", root_agent=_loop(), steps_per_activity=20),
        App(name="ask", root_agent=Workflow(name="wf", edges=[("START", ask)])),
    ]


def _chain() -> Workflow:
    def hand_on(node_input: str) -> str:
        return passed_on(node_input)

    nodes = [node(hand_on, name=f"f{number}") for number in range(CHAIN)]
    return Workflow(name="wf", edges=[("START", *nodes)])


def _items() -> Workflow:
    def numbers(node_input: str) -> list[int]:
        return list(range(int(node_input.split(maxsplit=1)[0])))

    def item(node_input: int) -> int:
        return node_input

    each = node(item, parallel_worker=True)
    return Workflow(name="wf", edges=[("START", numbers, each)])


def _loop() -> Workflow:
    def count(node_input: Any) -> Event:
        left = node_input if isinstance(node_input, int) else int(node_input.parts[0].text)
        actions = EventActions(route="again" if left > 1 else "done")
        return Event(output=left - 1, actions=actions)

    def done(node_input: int) -> int:
        return node_input

    return Workflow(name="wf", edges=[("START", count, {"again": count, "done": done})])


def ask() -> RequestInput:
    """Ask a person."""
    return RequestInput(message="Well?")


def _agent(**fields: Any) -> LlmAgent:
    return LlmAgent(name="g", model=CapitalModel(), tools=[get_capital], **fields)
