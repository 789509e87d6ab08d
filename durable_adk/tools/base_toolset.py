"""`BaseToolset`: the interface of a set of tools that is listed at run time."""

import asyncio
import copy
import inspect
from abc import ABC, abstractmethod
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Protocol, cast, runtime_checkable

from google.genai import types

from durable_adk.calling import contained
from durable_adk.context.activity import ReadonlyContext, ToolContext
from durable_adk.errors import DurableAdkError, ToolsetUnavailableError, frames_of_error
from durable_adk.log import get_logger
from durable_adk.models.llm_request import LlmRequest
from durable_adk.retrying import TOOLSET_TIMEOUT, retrying
from durable_adk.tools.base_tool import BaseTool, ToolOrToolset

LOAD_TIMEOUT = 30.0
"""Seconds that a step waits for a set's tools."""
PAUSE = 0.4
"""Seconds between retries for an unreachable set: its server may be starting."""

_HINT = (
    "start its server, or correct its address; until then the model is called without its tools, "
    "and their calls wait for a minute"
)
_Missed = list[ToolsetUnavailableError]
_MISSED: ContextVar[tuple[_Missed, bool] | None] = ContextVar("missed", default=None)

logger = get_logger(__name__)


@runtime_checkable
class ToolPredicate(Protocol):
    """Returns whether a tool is used in a step."""

    def __call__(  # noqa: D102 - see the class
        self, tool: BaseTool, readonly_context: ReadonlyContext | None = None
    ) -> bool: ...


class BaseToolset(ToolOrToolset, ABC):
    """Tools from one source (TOL-28)."""

    tool_filter: "ToolPredicate | Sequence[str] | None" = None
    tool_name_prefix: str | None = None

    def __init__(
        self,
        *,
        tool_filter: "ToolPredicate | Sequence[str] | None" = None,
        tool_name_prefix: str | None = None,
    ) -> None:
        """Initialize the set.

        Args:
            tool_filter: Names without prefix, or a predicate; None or an empty list: all tools.
            tool_name_prefix: Prefix of the names for the model, followed by an underscore.
        """
        self.tool_filter = tool_filter
        self.tool_name_prefix = tool_name_prefix

    @abstractmethod
    async def get_tools(self, readonly_context: ReadonlyContext | None = None) -> list[BaseTool]:
        """Return the tools."""

    async def get_tools_with_prefix(
        self, readonly_context: ReadonlyContext | None = None
    ) -> list[BaseTool]:
        """Return the tools, under their names for the model."""
        tools = await self.get_tools(readonly_context)
        if not self.tool_name_prefix:
            return tools
        return [_renamed(tool, f"{self.tool_name_prefix}_{tool.name}") for tool in tools]

    async def process_llm_request(
        self, *, tool_context: ToolContext, llm_request: LlmRequest
    ) -> None:
        """Change a request before the tools of the set do; does nothing by default."""

    async def close(self) -> None:
        """Close connections; does nothing by default."""

    def _is_tool_selected(
        self, tool: BaseTool, readonly_context: ReadonlyContext | None = None
    ) -> bool:
        """Whether the filter selects the tool; for use in `get_tools`."""
        wanted = self.tool_filter
        if not wanted:
            return True
        return wanted(tool, readonly_context) if callable(wanted) else tool.name in wanted


async def load_tools(
    toolset: BaseToolset,
    readonly_context: ReadonlyContext | None = None,
    *,
    timeout: float | None = None,  # noqa: ASYNC109 - ends in a log line, not in an exception
) -> list[BaseTool] | None:
    """Return a set's tools, under their names for the model; None if the set is unavailable.

    The failure is logged and the agent continues without the tools (AGT-24). A caller may collect
    unavailable sets with `missed_toolsets`.
    """
    try:
        async with asyncio.timeout(LOAD_TIMEOUT if timeout is None else timeout):
            # Connection failures may be any OSError, not only ConnectionError.
            list_with_retry = retrying(_list_tools, TOOLSET_TIMEOUT, pause=PAUSE, on=OSError)
            return await list_with_retry(toolset, readonly_context)
    except Exception as error:  # noqa: BLE001 - a toolset may raise anything
        # The texts of these errors describe the infrastructure and quote no user content (I19).
        ours = isinstance(error, DurableAdkError | ConnectionError)
        details: dict[str, Any] = {"error": str(error)} if ours else {}
        if frames := frames_of_error(error):
            details["error_at"] = frames
        kind, (missed, waits) = type(error).__name__, _MISSED.get() or ([], False)
        name = type(inspect.unwrap(cast("Any", toolset))).__name__  # google-adk's, if wrapped
        missed.append(ToolsetUnavailableError(f"{name} ({kind})", error_type=kind))
        event_name = "toolset.unavailable" if waits else "toolset.skipped"
        logger.warning(event_name, toolset=repr(toolset), error_type=kind, hint=_HINT, **details)
        return None


async def _list_tools(
    toolset: BaseToolset, readonly_context: ReadonlyContext | None
) -> list[BaseTool]:
    return await contained(toolset.get_tools_with_prefix(readonly_context))


@contextmanager
def missed_toolsets(*, waits: bool = True) -> Generator[_Missed]:
    """Collect the toolsets that were unavailable while the body ran, with the reason.

    Args:
        waits: For the log: whether the caller waits for them or continues without them.
    """
    missed: _Missed = []
    token = _MISSED.set((missed, waits))
    try:
        yield missed
    finally:
        _MISSED.reset(token)


def _renamed(tool: BaseTool, name: str) -> BaseTool:
    """Return a copy of the tool that is declared under another name."""

    def declaration() -> types.FunctionDeclaration | None:
        original = tool.get_declaration()
        return original and original.model_copy(update={"name": name})

    renamed = copy.copy(tool)
    renamed.name = name
    vars(renamed).update(get_declaration=declaration, _get_declaration=declaration)
    return renamed
