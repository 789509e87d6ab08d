"""The tool by which a model transfers the conversation to another agent."""

from collections.abc import Sequence
from typing import Any

from google.genai import types

from durable_adk.context.activity import ToolContext
from durable_adk.tools.base_tool import BaseTool


def transfer_to_agent(
    agent_name: str, tool_context: ToolContext, *, transfer_reason: str = ""
) -> None:
    """Hand the conversation over to the agent that is best placed to answer."""
    tool_context.actions.transfer_to_agent = agent_name
    tool_context.actions.transfer_reason = transfer_reason or None


_MISSING = "The mandatory argument 'agent_name' is missing; call again with it."


class TransferToAgentTool(BaseTool):
    """Transfers to one of the given agents (AGT-50, AGT-53, TOL-23).

    Args:
        agent_names: The agents.
        include_transfer_reason: Whether to ask the model for its reason.
    """

    def __init__(self, agent_names: Sequence[str], include_transfer_reason: bool = False) -> None:
        super().__init__(
            name="transfer_to_agent",
            description="Hand the conversation over to the agent that is best placed to answer.",
            contract="pure",
        )
        self._parameters = {"agent_name": {"type": "string", "enum": list(agent_names)}}
        if include_transfer_reason:
            self._parameters["transfer_reason"] = {"type": "string"}

    def _get_declaration(self) -> types.FunctionDeclaration:
        return types.FunctionDeclaration(
            name=self.name,
            description=self.description,
            parameters_json_schema={
                "type": "object",
                "properties": self._parameters,
                "required": ["agent_name"],
            },
        )

    async def run_async(
        self, *, args: dict[str, Any], tool_context: ToolContext
    ) -> dict[str, str] | None:
        """Request the transfer; it happens when the response is committed (AGT-50)."""
        if "agent_name" not in args:
            return {"error": _MISSING}
        reason = str(args.get("transfer_reason") or "")
        transfer_to_agent(str(args["agent_name"]), tool_context, transfer_reason=reason)
        return None
