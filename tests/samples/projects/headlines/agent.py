"""A loop: a writer and an editor, until the editor has no more to say, or three rounds are over."""

from typing import Any

from google.adk.agents import LlmAgent
from google.adk.agents.context import Context
from google.adk.events.event import Event
from google.adk.workflow import RetryConfig, Workflow, node

MOST = 3


def topic(node_input: str) -> Event:
    return Event(output=node_input, state={"topic": node_input, "round": 0})


write = LlmAgent(
    name="write",
    model="gemini-2.5-flash",
    instruction="You write headlines on {topic}.",
    output_key="headline",
)
edit = LlmAgent(
    name="edit",
    model="gemini-2.5-flash",
    instruction="You are the editor. Say OK, or what is wrong.",
)


def decide(ctx: Context, node_input: str) -> Any:
    ctx.state["round"] = ctx.state["round"] + 1
    if node_input == "OK" or ctx.state["round"] == MOST:
        return Event(output=ctx.state["headline"], route="print")
    return Event(output=node_input, route="again")


@node(retry_config=RetryConfig(max_attempts=3, initial_delay=0.01, exceptions=[ConnectionError]))
async def send_to_press(ctx: Context, node_input: str) -> dict[str, Any]:
    """The press is asleep, and hears the second call only."""
    if ctx.attempt_count < 2:
        ctx.state["missed"] = ctx.attempt_count
        raise ConnectionResetError("the press is asleep")
    return {"printed": node_input, "attempts": ctx.attempt_count}


root_agent = Workflow(
    name="headlines",
    edges=[("START", topic, write, edit, decide), (decide, {"again": write, "print": send_to_press})],
)
