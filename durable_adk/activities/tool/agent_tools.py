"""The tools available to an agent's step: its own, and those that the runtime adds."""

from dataclasses import dataclass, field
from functools import lru_cache

from durable_adk.agents.llm_agent import LlmAgent, is_task
from durable_adk.context.activity import ReadonlyContext
from durable_adk.conversation.client_requests import CONTROL_FUNCTIONS
from durable_adk.errors import ToolsetUnavailableError
from durable_adk.log import get_logger
from durable_adk.models.llm_request import SET_MODEL_RESPONSE
from durable_adk.tools.base_tool import BaseTool
from durable_adk.tools.base_toolset import missed_toolsets
from durable_adk.tools.finish_task_tool import FINISH_TASK, FinishTaskTool
from durable_adk.tools.set_model_response_tool import SetModelResponseTool
from durable_adk.tools.transfer_to_agent_tool import TransferToAgentTool

TRANSFER = "transfer_to_agent"
_BUILT_IN = (FinishTaskTool, SetModelResponseTool, TransferToAgentTool)
_LOG = get_logger(__name__)


async def tools_of(agent: LlmAgent, context: ReadonlyContext) -> dict[str, BaseTool]:
    """Return the tools by name, built-in ones first as in ADK.

    Another tool that has the name of a built-in one, or of a request to the client, is omitted.
    """
    tools: dict[str, BaseTool] = {}
    if agent.answers_by_tool:
        tools[SET_MODEL_RESPONSE] = SetModelResponseTool(agent.output_schema)
    if is_task(agent):
        tools[FINISH_TASK] = FinishTaskTool(agent.output_schema, output_key=agent.output_key)
    targets = [target.name for target in agent.transfer_targets]
    if targets:
        tools[TRANSFER] = TransferToAgentTool(targets)
    reserved = CONTROL_FUNCTIONS | tools.keys()
    for tool in await agent.canonical_tools(context):
        if tool.name not in reserved or isinstance(tool, _BUILT_IN):
            tools[tool.name] = tool
        else:
            _warn_of(agent.name, tool.name)
    return tools


@lru_cache(maxsize=1000)
def _warn_of(agent: str, tool: str) -> None:
    """Warn once about an omitted tool."""
    remedy = "The runtime uses this name. Rename the tool, or give its toolset a tool_name_prefix."
    _LOG.warning("tool.left_out", agent=agent, tool=tool, hint=remedy)


@dataclass(frozen=True)
class AgentTools:
    """The tools by name, for a call from the model."""

    tools: dict[str, BaseTool] = field(default_factory=dict[str, BaseTool])
    missed: list[ToolsetUnavailableError] = field(default_factory=list[ToolsetUnavailableError])
    """Errors of the unavailable toolsets; the tool may belong to one of them."""


async def agent_tools(agent: LlmAgent, context: ReadonlyContext) -> AgentTools:
    """Like `tools_of`, but also return the errors of unavailable toolsets."""
    with missed_toolsets() as missed:
        return AgentTools(await tools_of(agent, context), missed)
