"""Refunds that wait: for the warehouse, and for somebody's approval.

Who waits holds no process, no thread and no lock. Worker and server may be killed and started again
meanwhile; an answer goes on with the same invocation, whenever it comes.
"""

import hashlib
import os
from datetime import timedelta

from durable_adk.agents import LlmAgent
from durable_adk.tools import FunctionTool, ToolContext
from durable_adk.tools.long_running_tool import LongRunningFunctionTool

from . import stand_in  # noqa: TID252  # so that the folder can be copied as it is

GEMINI = "gemini-2.5-flash" if {"GEMINI_API_KEY", "GOOGLE_API_KEY"} & os.environ.keys() else ""
MOST_WITHOUT_APPROVAL = 100.0


def inspect_parcel(order: str, tool_context: ToolContext) -> dict[str, str]:
    """Have the warehouse inspect the parcel of an order that came back."""
    # What is returned now is how things stand. The result is what somebody answers later.
    return {"status": "pending", "ticket": f"{_number('W', tool_context)} for {order}"}


def refund(order: str, amount: float, tool_context: ToolContext) -> dict[str, str]:
    """Pay a sum in euros back to the customer of an order."""
    # A real one hands the key on to the bank, so that a run that is repeated pays nothing twice.
    return {"receipt": _number("R", tool_context), "paid": f"{amount:.2f} euros for {order}"}


def _number(letter: str, tool_context: ToolContext) -> str:
    digest = hashlib.sha256(tool_context.idempotency_key.encode()).hexdigest()
    return f"{letter}-{digest[:6].upper()}"


def is_large(amount: float) -> bool:
    """Whether somebody must approve a refund."""
    return amount > MOST_WITHOUT_APPROVAL


root_agent = LlmAgent(
    name="refund_approval",
    model=GEMINI or stand_in.clerk,
    description="Refunds what customers send back.",
    instruction="""For each refund, first have the order's parcel inspected. While there is no
result, tell the ticket and do nothing else. Then refund what was asked for, unless the parcel is
damaged. Tell the receipt, or why there is no refund.""",
    tools=[
        LongRunningFunctionTool(inspect_parcel),
        FunctionTool(refund, require_confirmation=is_large, deadline=timedelta(days=7)),
    ],
)
