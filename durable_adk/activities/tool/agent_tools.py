"""The tools available to an agent's step: its own, and those that the runtime adds."""

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
    """Return the tools by name, built-in ones first as in ADK.

    An agent's own tool replaces a built-in one of the same name.
    """
    tools: dict[str, BaseTool] = {}
    if agent.answers_by_tool:
        tools[SET_MODEL_RESPONSE] = SetModelResponseTool(agent.output_schema)
    targets = [target.name for target in agent.transfer_targets]
    if targets:
        tools[TRANSFER] = TransferToAgentTool(targets)
    return tools | {tool.name: tool for tool in await agent.canonical_tools(context)}


@dataclass(frozen=True)
class AgentTools:
    """The tools by name, for a call that the model has made."""

    tools: dict[str, BaseTool] = field(default_factory=dict[str, BaseTool])
    missed: list[ToolsetUnavailableError] = field(default_factory=list[ToolsetUnavailableError])
    """Errors of the toolsets that could not be asked; the tool may belong to one of them."""


async def agent_tools(agent: LlmAgent, context: ReadonlyContext) -> AgentTools:
    """Like `tools_of`, but also return the errors of unavailable toolsets."""
    with missed_toolsets() as missed:
        return AgentTools(await tools_of(agent, context), missed)
