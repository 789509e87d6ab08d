"""The port to a tool."""

from typing import TYPE_CHECKING, Any

from google.genai import types

from durable_adk.models.llm_request import LlmRequest

if TYPE_CHECKING:
    from durable_adk.context import ToolContext


class BaseTool:
    """Something an agent's model can call (semantics TOL-1)."""

    def __init__(
        self,
        *,
        name: str,
        description: str,
        is_long_running: bool = False,
        timeout: float | None = None,
        custom_metadata: dict[str, Any] | None = None,
    ) -> None:
        """Describe the tool.

        Args:
            name: What the model calls it by; unique within the agent.
            description: What the model is told of it.
            is_long_running: Its result comes later, in a message of its own.
            timeout: Seconds one run may take; None for the worker's default.
            custom_metadata: The owner's notes; the runtime does not read them.
        """
        self.name = name
        self.description = description
        self.is_long_running = is_long_running
        self.timeout = timeout
        self.custom_metadata = custom_metadata

    def get_declaration(self) -> types.FunctionDeclaration | None:
        """What the model is told: name, description, parameters. None: nothing."""
        return self._get_declaration()

    def _get_declaration(self) -> types.FunctionDeclaration | None:
        return None

    async def run_async(self, *, args: dict[str, Any], tool_context: "ToolContext") -> Any:
        """Run the tool; what it raises ends the run (TOL-18), what it returns is the response.

        It runs at least once per call: after a crash it may run again, with the same
        `tool_context.idempotency_key`.
        """
        del args, tool_context
        raise TypeError(f"{type(self).__name__} does not define run_async.")

    async def process_llm_request(
        self, *, tool_context: "ToolContext", llm_request: LlmRequest
    ) -> None:
        """Change the request before it is sent; by default, declare the tool in it."""
        del tool_context
        llm_request.append_tools([self])
