"""`AGUIToolset`: the tools of the user's AG-UI front end."""

import re
from datetime import timedelta
from typing import Any, Literal, cast

from google.genai import types

from durable_adk.calling.copies import own_copy
from durable_adk.context.activity import ReadonlyContext, ToolContext
from durable_adk.errors import InvalidRequestError
from durable_adk.log import get_logger
from durable_adk.tools.base_tool import BaseTool
from durable_adk.tools.base_toolset import BaseToolset, ToolPredicate

logger = get_logger(__name__)

FRONT_END_TOOLS = "ag_ui_tools"
"""State key for the tools of the session's front end, as AG-UI declares them."""
_NAME = re.compile(r"(?!adk_)[A-Za-z_][\w.-]{0,63}", re.ASCII)
_RUNTIMES = ("transfer_to_agent", "set_model_response", "exit_loop")


def check_declared(tool: Any, field: str) -> None:
    """Check the declaration of a front-end tool, which any writer of the state may have set.

    Args:
        tool: The declaration, as JSON.
        field: Its name in the error message.

    Raises:
        InvalidRequestError: It is not a declaration, or the runtime has a tool of this name.
    """
    fields = cast("dict[str, Any]", tool if isinstance(tool, dict) else {})
    name, description = fields.get("name"), fields.get("description")
    if not isinstance(name, str) or not _NAME.fullmatch(name) or name in _RUNTIMES:
        raise InvalidRequestError(
            f"{field}.name: This is no name for a front end's tool. Use up to 64 letters, digits, "
            f"'_', '-' and '.', no 'adk_' at the start, and none of {_RUNTIMES}."
        )
    if not isinstance(description, str | None):
        raise InvalidRequestError(f"{field}.description: It must be a string.")
    if not isinstance(fields.get("parameters"), dict | None):
        raise InvalidRequestError(f"{field}.parameters: They must be a JSON Schema, or null.")


class AGUIToolset(BaseToolset):
    """Tools that run in an AG-UI front end, which sends their declarations with each request.

    A call waits durably until the front end sends its result. List this set before the agent's own
    tools: among tools with the same name, the last one wins.
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
        """Return the tools that the front end sent last; none without a front end.

        Any writer of the state may have set them, so a malformed one is skipped with a warning.
        """
        declared: Any = readonly_context.state.get(FRONT_END_TOOLS) if readonly_context else None
        found = cast("list[Any]", declared if isinstance(declared, list) else [])
        tools = [_FrontEndTool(one, self._wait) for one in found if _is_declared(one)]
        return [tool for tool in tools if self._is_tool_selected(tool, readonly_context)]


def _is_declared(tool: Any) -> bool:
    try:
        check_declared(tool, FRONT_END_TOOLS)
    except InvalidRequestError as error:
        logger.warning("front_end_tool.left_out", reason=error.message)
        return False
    return True


class _FrontEndTool(BaseTool):
    def __init__(self, declared: dict[str, Any], wait: dict[str, Any]) -> None:
        super().__init__(
            name=declared["name"],
            description=declared.get("description") or "",
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
        """Do nothing: the front end receives the call, and sends its result."""
