"""A graph: a text is drafted, a person reviews it, and it is drafted again until it is accepted.

While the person has not answered, nothing runs. Each output is stored once; a crash repeats only
the node that was running.
"""

import os
from typing import Any

from durable_adk import Context, Workflow
from durable_adk.agents import LlmAgent
from durable_adk.events import RequestInput
from durable_adk.workflow import DEFAULT_ROUTE

from . import stand_in  # noqa: TID252  # so that the folder can be copied as it is

GEMINI = "gemini-2.5-flash" if {"GEMINI_API_KEY", "GOOGLE_API_KEY"} & os.environ.keys() else ""

write = LlmAgent(
    name="write",
    model=GEMINI or stand_in.writer,
    instruction="""Write one sentence that announces what you are told. If you get a text with a
comment, change the text as the comment says. Answer with the sentence only.""",
    output_key="draft",
)


def review(draft: str) -> RequestInput:
    """Ask a person; the answer is this node's output."""
    return RequestInput(
        message="Is this text good? Answer 'yes', or say what to change.",
        payload={"draft": draft},
        response_schema=str,
    )


def decide(node_input: str, draft: str, ctx: Context) -> str:
    """Choose the next node by the answer."""
    if node_input.strip().lower() in ("yes", "ok"):
        ctx.route = "accepted"
        return draft
    return f"Text: {draft}\nComment: {node_input}"


def publish(node_input: str) -> dict[str, Any]:
    """Return what a real one would send."""
    return {"published": node_input, "characters": len(node_input)}


root_agent = Workflow(
    name="draft_review",
    description="Writes an announcement, and asks a person before it is published.",
    edges=[
        ("START", write, review, decide, {"accepted": publish, DEFAULT_ROUTE: write}),
    ],
)
