"""The tools of an agent's step: its own, and those that the runtime adds."""

from dataclasses import dataclass, field

from durable_adk.agents.llm_agent import LlmAgent
from durable_adk.context.activity import ReadonlyContext
from durable_adk.errors import ToolsetUnavailableError
from durable_adk.models.llm_request import SET_MODEL_RESPONSE
from durable_adk.tools.base_tool import BaseTool
from durable_adk.tools.base_toolset import missed_toolsets
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


@dataclass(frozen=True)
class Toolbox:
    """The tools by name, for a call that has been made."""

    tools: dict[str, BaseTool] = field(default_factory=dict[str, BaseTool])
    missed: list[ToolsetUnavailableError] = field(default_factory=list[ToolsetUnavailableError])
    """Why some toolsets could not be asked; the tool may be one of theirs."""


async def toolbox_of(agent: LlmAgent, context: ReadonlyContext) -> Toolbox:
    """As `tools_of`, with what keeps it from having all of them."""
    with missed_toolsets() as missed:
        return Toolbox(await tools_of(agent, context), missed)
