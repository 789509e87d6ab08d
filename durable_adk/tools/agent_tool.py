"""Another agent as a tool."""

from typing import TYPE_CHECKING, Any

from google.genai import types
from pydantic import BaseModel, ValidationError

from durable_adk.tools.base_tool import BaseTool

if TYPE_CHECKING:
    from durable_adk.agents.base_agent import BaseAgent


class AgentTool(BaseTool):
    """Lets a model ask another agent, as it calls any tool (semantics TOL-21, OPEN-6).

    The agent runs as an invocation of its own: a child workflow with its own conversation, under
    the caller's invocation id, which starts from the caller's state (without `temp:` keys) and
    shares its artifacts. What it changed comes back with the response. A crash in the middle
    resumes it where it was; none of its finished steps is run again (TRAP-43).
    """

    def __init__(
        self, agent: "BaseAgent", skip_summarization: bool = False, *, include_plugins: bool = True
    ) -> None:
        """Wrap an agent, which must not be a sub-agent of another.

        Args:
            agent: Its name, description and, for an LlmAgent, `input_schema` are the tool's.
            skip_summarization: Whether its answer ends the caller's turn as it is.
            include_plugins: Whether the app's plugins see its run.
        """
        super().__init__(name=agent.name, description=agent.description)
        self.agent = agent
        self.skip_summarization = skip_summarization
        self.include_plugins = include_plugins

    @property
    def reads_confirmation(self) -> bool:
        """See `BaseTool.reads_confirmation`; an agent cannot."""
        return False

    @property
    def input_schema(self) -> type[BaseModel] | None:
        """What the agent is asked with; None: a text."""
        return getattr(self.agent, "input_schema", None)

    def _get_declaration(self) -> types.FunctionDeclaration:
        schema = self.input_schema
        return types.FunctionDeclaration(
            name=self.name,
            description=self.description,
            parameters_json_schema=schema.model_json_schema() if schema else _REQUEST,
        )

    def question(self, args: dict[str, Any]) -> tuple[str, str | None]:
        """The message for the agent; or the reason why the arguments make none, for the model."""
        schema = self.input_schema
        if schema is None:
            if "request" not in args:
                return "", "The mandatory argument 'request' is missing; call again with it."
            return str(args["request"]), None
        try:
            value = schema.model_validate(args)
        except ValidationError as error:
            problems = "; ".join(
                f"{'.'.join(map(str, item['loc'])) or 'arguments'}: {item['msg']}"
                for item in error.errors(include_url=False)
            )
            return "", f"The arguments do not fit: {problems}. Call again with ones that do."
        return value.model_dump_json(exclude_none=True), None


_REQUEST = {
    "type": "object",
    "properties": {"request": {"type": "string"}},
    "required": ["request"],
}
