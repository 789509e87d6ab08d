"""The tools of an agent's step: its own, and those that the runtime gives it."""

from durable_adk.agents.llm_agent import LlmAgent
from durable_adk.context import ReadonlyContext
from durable_adk.models.llm_request import SET_MODEL_RESPONSE
from durable_adk.tools.base_tool import BaseTool
from durable_adk.tools.set_model_response_tool import SetModelResponseTool
from durable_adk.tools.transfer_to_agent_tool import TransferToAgentTool

TRANSFER = "transfer_to_agent"


async def tools_of(agent: LlmAgent, context: ReadonlyContext) -> dict[str, BaseTool]:
    """The tools by name; a tool of the agent's own stands before one of ours of the same name."""
    tools = {tool.name: tool for tool in await agent.canonical_tools(context)}
    targets = [target.name for target in agent.transfer_targets]
    if targets:
        tools.setdefault(TRANSFER, TransferToAgentTool(targets))
    if agent.answers_by_tool:
        tools.setdefault(SET_MODEL_RESPONSE, SetModelResponseTool(agent.output_schema))
    return tools
