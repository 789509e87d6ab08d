"""Another agent as a tool."""

import json
from inspect import isawaitable
from typing import TYPE_CHECKING, Any

from google.genai import types
from pydantic import BaseModel, ValidationError

from durable_adk.context.activity import ToolContext
from durable_adk.errors import AgentError
from durable_adk.google_objects import from_google_adk
from durable_adk.tools.base_tool import BaseTool

if TYPE_CHECKING:
    from durable_adk.agents.base_agent import BaseAgent


class AgentTool(BaseTool):
    """Lets a model call another agent like any tool (TOL-21, OPEN-6).

    The agent runs as an invocation of its own: a child workflow with its own conversation, under
    the caller's invocation id, which starts from the caller's state (without `temp:` keys) and
    shares its artifacts. Its state changes are returned with the response. After a crash it
    resumes; finished steps do not run again (TRAP-43).
    """

    delegates = True

    def __init__(
        self, agent: "BaseAgent", skip_summarization: bool = False, *, include_plugins: bool = True
    ) -> None:
        """Wrap an agent that is not a sub-agent of another one.

        Args:
            agent: Its name, description and, for an LlmAgent, `input_schema` are the tool's.
            skip_summarization: Whether its output ends the caller's turn unchanged.
            include_plugins: Whether the app's plugins run for it.
        """
        agent = from_google_adk(agent)
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
        """The schema of the agent's input, or of its first sub-agent's; None: text."""
        agent = self.agent
        while agent.sub_agents and not hasattr(agent, "input_schema"):
            agent = agent.sub_agents[0]
        return getattr(agent, "input_schema", None)

    @property
    def output_schema(self) -> Any:
        """The schema of the agent's output, or of its last sub-agent's; None: text."""
        agent = self.agent
        while agent.sub_agents and not hasattr(agent, "output_schema"):
            agent = agent.sub_agents[-1]
        return getattr(agent, "output_schema", None)

    @property
    def has_own_code(self) -> bool:
        """Whether a subclass overrides `run_async`."""
        return type(self).run_async is not AgentTool.run_async

    async def run_async(self, *, args: dict[str, Any], tool_context: ToolContext) -> Any:
        """Run the agent and return its output.

        A subclass may override this, and call it any number of times. Each run is a child
        invocation. The override does not wait for the run: it is cancelled, even if it catches the
        cancellation, and called again from its first line when the run has ended, with the results
        of all runs so far. Its earlier return values and state changes are dropped. So it must
        request the same runs in the same order every time, and its other effects before a run are
        repeated.

        With a context that a test has created, the agent runs immediately, in memory.

        Raises:
            DurableAdkError: The agent's run failed.
            AgentError: It was called outside of a tool call.
        """
        message, problem = self.question(args)
        if problem is not None:
            return {"error": problem}
        if tool_context.run_agent is None:
            raise AgentError("AgentTool.run_async runs only within a tool call.")
        result = tool_context.run_agent(self, message)
        return await result if isawaitable(result) else result

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
            whole = json.dumps(args, ensure_ascii=False, sort_keys=True)
            return str(args.get("request", whole)), None
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
