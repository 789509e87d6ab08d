"""A help desk whose agents hand a conversation over to each other.

An agent with sub-agents may hand over to them, and they to each other and back, by their
descriptions; nothing has to be written for it. The next message goes to the agent that has the
conversation, without a new hand-over.
"""

import os
from typing import Literal

from durable_adk.agents import LlmAgent

from . import stand_in  # noqa: TID252  # so that the folder can be copied as it is

GEMINI = "gemini-2.5-flash" if {"GEMINI_API_KEY", "GOOGLE_API_KEY"} & os.environ.keys() else ""

INVOICES = {"4711": (39.0, "paid"), "4712": (39.0, "open"), "4713": (12.5, "open")}
SERVICES = {"mail": "slow", "telephone": "up", "television": "up"}


def get_invoice(number: str) -> dict[str, object]:
    """Find an invoice: what it is about, how much it is, and whether it is paid."""
    if number not in INVOICES:
        return {"error": f"There is no invoice {number}."}
    amount, status = INVOICES[number]
    return {"amount": amount, "state": status}


def check_service(service: Literal["mail", "telephone", "television"]) -> str:
    """Check whether a service works: mail, telephone or television."""
    return f"The {service} service is {SERVICES[service]}."


def opening_hours(day: str = "any day") -> str:
    """Tell the opening hours of our shops."""
    closed = day.lower() == "sunday"
    return "We are closed on Sunday." if closed else f"On {day} we are open from 9 to 18."


billing = LlmAgent(
    name="billing",
    description="Answers questions on invoices, payments and prices.",
    instruction="Look invoices up before you say anything about them. Answer in a sentence.",
    tools=[get_invoice],
)
technical = LlmAgent(
    name="technical",
    description="Helps when a service does not work: mail, telephone, television.",
    instruction="Check the service first, then say what to do. Answer in a sentence.",
    tools=[check_service],
)
general = LlmAgent(
    name="general",
    description="Knows the opening hours and addresses of our shops, and everything else.",
    instruction="Answer in a sentence. Do not guess.",
    tools=[opening_hours],
)

root_agent = LlmAgent(
    name="help_desk",
    model=GEMINI or stand_in.anybody,  # that of the others too, which name none
    description="Welcomes customers and finds out who can help them.",
    instruction="Hand over to the agent that can help. Ask when you do not know which.",
    sub_agents=[billing, technical, general],
)
