import logging
from typing import Any

from google.adk.agents.llm_agent import LlmAgent
from google.adk.tools import FunctionTool, LongRunningFunctionTool, ToolContext
from google.adk.tools.tool_confirmation import ToolConfirmation

logger = logging.getLogger(__name__)


def is_large(purpose: str, amount: float) -> bool:
    return amount > 100


def reimburse(purpose: str, amount: float) -> dict[str, str]:
    """Pays an amount back to the employee."""
    logger.info("reimbursing %s for %s", amount, purpose)
    return {"status": "ok", "paid": f"{amount:.2f}"}


def ask_manager(purpose: str, amount: float, tool_context: ToolContext) -> dict[str, Any]:
    """Asks the manager about an expense without a receipt."""
    return {"status": "pending", "ticketId": f"ticket-{purpose}"}


def book_days_off(days: int, tool_context: ToolContext) -> dict[str, Any]:
    """Books days off for the employee."""
    confirmation: ToolConfirmation | None = tool_context.tool_confirmation
    if confirmation is None:
        tool_context.request_confirmation(
            hint=f"Shall {days} days off be booked?", payload={"approved_days": 0}
        )
        return {"status": "The manager has to confirm."}
    if not confirmation.confirmed:
        return {"status": "rejected"}
    return {"status": "booked", "days": days}


root_agent = LlmAgent(
    model="gemini-2.5-flash",
    name="expense_agent",
    instruction="You handle the expenses and days off of employees.",
    tools=[
        FunctionTool(reimburse, require_confirmation=is_large),
        LongRunningFunctionTool(func=ask_manager),
        book_days_off,
    ],
)
