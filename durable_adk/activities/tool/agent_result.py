"""What an agent that was asked as a tool has answered, read from its own session."""

from dataclasses import dataclass
from typing import Any

from durable_adk.activities.dependencies import Dependencies
from durable_adk.agents.llm_agent import LlmAgent
from durable_adk.context.activity import ToolContext
from durable_adk.errors import from_detail
from durable_adk.events.event import Event
from durable_adk.failpoints import failpoint
from durable_adk.sessions.state import without_temp
from durable_adk.tools.agent_tool import AgentTool
from durable_adk.tools.base_tool import BaseTool
from durable_adk.tools.output_schema import parse_output
from durable_adk.wire.steps import ChildEnd


@dataclass(frozen=True)
class AgentResult:
    """The events of the agent's run, and what it failed with."""

    events: list[Event]
    error: dict[str, Any] | None

    def taken(self, tool: BaseTool, context: ToolContext) -> Any:
        """The tool's result; state and artifacts that the agent changed go to the caller (TOL-21).

        Raises:
            DurableAdkError: What the agent's run failed with; it is the tool's error then.
        """
        if self.error is not None:
            raise from_detail(self.error)
        for event in self.events:
            context.state.update(without_temp(event.actions.state_delta))
            context.actions.artifact_delta |= event.actions.artifact_delta
        if isinstance(tool, AgentTool) and tool.skip_summarization:
            context.actions.skip_summarization = True
        return self._result(tool)

    def _result(self, tool: BaseTool) -> Any:
        last = next((event for event in reversed(self.events) if event.content), None)
        failed = next((event for event in reversed(self.events) if event.error_message), None)
        if failed is not None and failed is self.events[-1]:
            return failed.error_message
        if last is None:
            return ""
        texts = [part.text for part in last.parts if part.text and not part.thought]
        text = "\n".join(texts)
        agent = tool.agent if isinstance(tool, AgentTool) else None
        schema = agent.output_schema if isinstance(agent, LlmAgent) else None
        if schema is None:
            return text
        return parse_output(schema, text)


async def read_agent_result(deps: Dependencies, end: ChildEnd, invocation_id: str) -> AgentResult:
    """The agent's events without the question, by reference to its session (D3)."""
    record = await deps.sessions.get_invocation(end.key, invocation_id)
    if record is None:
        return AgentResult([], end.error)
    stored = await deps.sessions.read_events(end.key, after=record.start_seq)
    failpoint("child.read")
    return AgentResult([item.event for item in stored], end.error)
