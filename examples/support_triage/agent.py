"""A graph: an agent says what a message is about, and a route leads to the agent who answers it.

The first agent gives an object, not a text. A function turns it into a route; what no route names
goes to a person's queue.
"""

import os
from typing import Any, Literal

from pydantic import BaseModel

from durable_adk import Context, Workflow
from durable_adk.agents import LlmAgent
from durable_adk.workflow import DEFAULT_ROUTE, RetryConfig

from . import stand_in  # noqa: TID252  # so that the folder can be copied as it is

GEMINI = "gemini-2.5-flash" if {"GEMINI_API_KEY", "GOOGLE_API_KEY"} & os.environ.keys() else ""


class Ticket(BaseModel):
    """What a message is about."""

    topic: Literal["billing", "technical", "other"]
    urgent: bool
    summary: str


classify = LlmAgent(
    name="classify",
    model=GEMINI or stand_in.classifier,
    instruction="Say what the customer's message is about, whether it is urgent, and sum it up.",
    output_schema=Ticket,
    retry_config=RetryConfig(max_attempts=3),
)
billing = LlmAgent(
    name="billing",
    model=GEMINI or stand_in.billing,
    instruction="Answer a question about an invoice, in one or two sentences.",
)
technical = LlmAgent(
    name="technical",
    model=GEMINI or stand_in.technical,
    instruction="Help with a technical problem, in one or two sentences.",
)


def triage(node_input: dict[str, Any], ctx: Context) -> str:
    """Choose the next node by the topic, and hand on the summary."""
    ctx.state["urgent"] = node_input["urgent"]
    ctx.route = node_input["topic"]
    return node_input["summary"]


def queue(node_input: str, *, urgent: bool) -> str:
    """Return what a real one would put into a queue."""
    return f"A person will answer{' today' if urgent else ' this week'}: {node_input}"


def send(node_input: str) -> dict[str, str]:
    """Return what a real one would send."""
    return {"sent": node_input}


root_agent = Workflow(
    name="support_triage",
    description="Answers a customer, or hands on to a person.",
    edges=[
        (
            "START",
            classify,
            triage,
            {"billing": billing, "technical": technical, DEFAULT_ROUTE: queue},
            send,
        ),
    ],
)
