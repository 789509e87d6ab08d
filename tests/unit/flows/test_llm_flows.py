"""ADK's names of the calls that a client answers."""

from durable_adk.agents import LlmAgent
from durable_adk.flows.llm_flows.functions import (
    REQUEST_CONFIRMATION_FUNCTION_CALL_NAME,
    REQUEST_EUC_FUNCTION_CALL_NAME,
)
from durable_adk.models import ScriptedModel
from durable_adk.runners import InMemoryRunner
from durable_adk.tools import FunctionTool
from tests.support.scripts import call, send


def buy() -> str:
    """Buy."""
    return "bought"


async def test_a_client_finds_what_it_has_to_approve() -> None:
    """TOL-61: by ADK's name of the call."""
    tool = FunctionTool(buy, require_confirmation=True)
    model = ScriptedModel(replies=[call("buy"), "x"])
    async with InMemoryRunner(LlmAgent(name="a", model=model, tools=[tool])) as runner:
        events = await send(runner)
    asked = [one.name for event in events for one in event.get_function_calls()]
    assert asked == ["buy", REQUEST_CONFIRMATION_FUNCTION_CALL_NAME]
    assert REQUEST_EUC_FUNCTION_CALL_NAME == "adk_request_credential"
