"""Routes: an agent says what a mail is about, and the mail goes to the right desk."""

from typing import Literal

from google.adk.agents import LlmAgent
from google.adk.events import Event
from google.adk.workflow import DEFAULT_ROUTE, Workflow
from pydantic import BaseModel


class Topic(BaseModel):
    topic: Literal["bill", "fault", "other"]
    urgent: bool = False


classify = LlmAgent(
    name="classify",
    model="gemini-2.5-flash",
    instruction="You say what a mail is about.",
    output_schema=Topic,
    output_key="topic",
)


def dispatch(node_input: Topic) -> Event:
    routes = ["urgent", node_input.topic] if node_input.urgent else node_input.topic
    return Event(output=node_input.topic, route=routes)


def page_someone(topic: dict) -> None:
    print(f"Wake up: {topic['topic']}!")


def look_up(node_input: str) -> Event:
    return Event(output={"kind": node_input, "amount": 42}, state={"amount": 42})


def explain(amount: int) -> str:
    return f"Your bill is {amount} euros."


technician = LlmAgent(
    name="technician",
    model="gemini-2.5-flash",
    description="Solves faults.",
    instruction="You solve faults.",
)


def thank(ctx, node_input: str):
    ctx.route = "done"
    ctx.output = f"Thank you for your {node_input} mail."


root_agent = Workflow(
    name="mail_sorter",
    edges=[
        ("START", classify, dispatch),
        (
            dispatch,
            {
                "bill": Workflow(name="billing", edges=[("START", look_up, explain)]),
                "fault": technician,
                "urgent": page_someone,
                DEFAULT_ROUTE: thank,
            },
        ),
    ],
)
