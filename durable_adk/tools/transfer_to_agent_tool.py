"""The tool by which a model transfers the conversation to another agent."""

from collections.abc import Sequence
from typing import Any

from google.genai import types

from durable_adk.context.activity import ToolContext
from durable_adk.tools.base_tool import BaseTool


def transfer_to_agent(agent_name: str, tool_context: ToolContext) -> None:
    """Hand the conversation over to the agent that is best placed to answer."""
    tool_context.actions.transfer_to_agent = agent_name


_MISSING = "The mandatory argument 'agent_name' is missing; call again with it."


class TransferToAgentTool(BaseTool):
    """Transfers to one of the given agents (semantics AGT-50, AGT-53, TOL-23)."""

    def __init__(self, agent_names: Sequence[str]) -> None:
        super().__init__(
            name="transfer_to_agent",
            description="Hand the conversation over to the agent that is best placed to answer.",
            contract="pure",
        )
        self._agent_names = list(agent_names)

    def _get_declaration(self) -> types.FunctionDeclaration:
        return types.FunctionDeclaration(
            name=self.name,
            description=self.description,
            parameters_json_schema={
                "type": "object",
                "properties": {"agent_name": {"type": "string", "enum": self._agent_names}},
                "required": ["agent_name"],
            },
        )

    async def run_async(
        self, *, args: dict[str, Any], tool_context: ToolContext
    ) -> dict[str, str] | None:
        """Request the transfer; it happens when the response is committed (AGT-50)."""
        if "agent_name" not in args:
            return {"error": _MISSING}
        tool_context.actions.transfer_to_agent = str(args["agent_name"])
        return None
