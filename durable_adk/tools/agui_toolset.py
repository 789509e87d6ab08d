"""`AGUIToolset`: the tools of the front end that the user looks at."""

from datetime import timedelta
from typing import Any, Literal

from google.genai import types

from durable_adk.context.activity import ReadonlyContext, ToolContext
from durable_adk.events.copies import own_copy
from durable_adk.tools.base_tool import BaseTool
from durable_adk.tools.base_toolset import BaseToolset, ToolPredicate

FRONT_END_TOOLS = "ag_ui_tools"
"""Key of the state that holds the tools of the session's front end, as AG-UI declares them."""


class AGUIToolset(BaseToolset):
    """Tools that run in a front end of AG-UI, which sends them with each of its requests.

    A call of one waits, durably, until the front end has sent its result. Name it before the
    agent's own tools: of two tools of a name the last one is used.
    """

    def __init__(
        self,
        *,
        tool_filter: ToolPredicate | list[str] | None = None,
        deadline: float | timedelta | None = None,
        on_deadline: Literal["reject", "fail", "tell"] = "tell",
    ) -> None:
        """Initialize the set.

        Args:
            tool_filter: Names of the tools that the agent may call, or a predicate; None: all.
            deadline: How long a call waits, in seconds or as a timedelta; None: no limit.
            on_deadline: What happens then; see `LongRunningFunctionTool`.
        """
        super().__init__(tool_filter=tool_filter)
        self._wait: dict[str, Any] = {"deadline": deadline, "on_deadline": on_deadline}

    async def get_tools(self, readonly_context: ReadonlyContext | None = None) -> list[BaseTool]:
        """Return the tools that the front end sent last; none without one."""
        declared: Any = readonly_context.state.get(FRONT_END_TOOLS) if readonly_context else None
        tools = [_FrontEndTool(one, self._wait) for one in declared or ()]
        return [tool for tool in tools if self._is_tool_selected(tool, readonly_context)]


class _FrontEndTool(BaseTool):
    def __init__(self, declared: dict[str, Any], wait: dict[str, Any]) -> None:
        super().__init__(
            name=declared["name"],
            description=declared["description"],
            is_long_running=True,
            **wait,
        )
        self._parameters: Any = own_copy(declared.get("parameters"))

    def _get_declaration(self) -> types.FunctionDeclaration:
        return types.FunctionDeclaration(
            name=self.name,
            description=self.description,
            parameters_json_schema=self._parameters or {"type": "object", "properties": {}},
        )

    async def run_async(self, *, args: dict[str, Any], tool_context: ToolContext) -> None:
        """Do nothing: the front end has the call, and sends its result."""
