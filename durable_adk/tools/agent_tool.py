"""Another agent as a tool."""

from typing import TYPE_CHECKING, Any

from google.genai import types
from pydantic import BaseModel, ValidationError

from durable_adk.tools.base_tool import BaseTool

if TYPE_CHECKING:
    from durable_adk.agents.base_agent import BaseAgent


class AgentTool(BaseTool):
    """Lets a model call another agent like any tool (semantics TOL-21, OPEN-6).

    The agent runs as an invocation of its own: a child workflow with its own conversation, under
    the caller's invocation id, which starts from the caller's state (without `temp:` keys) and
    shares its artifacts. Its state changes are returned with the response. After a crash it
    resumes; finished steps do not run again (TRAP-43).
    """

    def __init__(
        self, agent: "BaseAgent", skip_summarization: bool = False, *, include_plugins: bool = True
    ) -> None:
        """Wrap an agent that is not a sub-agent of another one.

        Args:
            agent: Its name, description and, for an LlmAgent, `input_schema` are the tool's.
            skip_summarization: Whether its output ends the caller's turn unchanged.
            include_plugins: Whether the app's plugins see its run.
        """
        super().__init__(name=agent.name, description=agent.description)
        self.agent = agent
        self.skip_summarization = skip_summarization
        self.include_plugins = include_plugins

    @property
    def reads_confirmation(self) -> bool:
        """See `BaseTool.reads_confirmation`; false for agents."""
        return False

    @property
    def input_schema(self) -> type[BaseModel] | None:
        """The schema of the agent's input; None: text."""
        return getattr(self.agent, "input_schema", None)

    def _get_declaration(self) -> types.FunctionDeclaration:
        schema = self.input_schema
        return types.FunctionDeclaration(
            name=self.name,
            description=self.description,
            parameters_json_schema=schema.model_json_schema() if schema else _REQUEST,
        )

    def question(self, args: dict[str, Any]) -> tuple[str, str | None]:
        """Return the message for the agent, and an error if the arguments are invalid."""
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
