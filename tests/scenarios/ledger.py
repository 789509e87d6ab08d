"""What tools did, in a file that survives the process they ran in."""

import copy
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import Any, NamedTuple

from durable_adk.agents import BaseAgent, LlmAgent
from durable_adk.apps import App
from durable_adk.tools import AgentTool, BaseTool, ToolContext, as_tool
from durable_adk.tools.base_toolset import BaseToolset
from harness.journal import note, notes


class Entry(NamedTuple):
    """The beginning of a tool's run."""

    app: str
    tool: str
    call_id: str
    key: str
    """The idempotency key it was given."""
    session: str
    pid: int


@dataclass(frozen=True)
class Ledger:
    """A file with one line for each run of a tool, oldest first."""

    path: Path

    def noting(self, app: App) -> App:
        """The app, whose tools write into the ledger when they run."""
        self._note_tools(app.root_agent)
        return app

    def _note_tools(self, root: BaseAgent) -> None:
        for agent in root.walk():
            if isinstance(agent, LlmAgent):
                agent.tools = [self._noted(item) for item in agent.tools]

    def _noted(self, item: Any) -> Any:
        """The tool, writing into the ledger; an agent's tools do so in its place."""
        if isinstance(item, BaseToolset):
            return item
        if isinstance(item, AgentTool):
            self._note_tools(item.agent)
            return item
        tool: BaseTool = copy.copy(as_tool(item))  # some are shared by all who import them
        run = tool.run_async

        @wraps(run)
        async def noted(*, args: dict[str, Any], tool_context: Any) -> Any:
            self.note(tool.name, tool_context)
            return await run(args=args, tool_context=tool_context)

        tool.run_async = noted
        return tool

    def note(self, tool: str, context: ToolContext) -> None:
        """Write down that a tool begins."""
        note(
            self.path,
            app=context.app_name,
            tool=tool,
            call_id=context.function_call_id,
            key=context.idempotency_key,
            session=context.session.id,
        )

    def of(self, app: str) -> list[Entry]:
        """Return the runs of one app's tools."""
        lines = (line for line in notes(self.path) if line["app"] == app)
        return [Entry(*(line[name] for name in Entry._fields)) for line in lines]
