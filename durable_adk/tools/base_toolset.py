"""The port to a set of tools that is known only when it is asked for."""

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

from durable_adk.tools.base_tool import BaseTool

if TYPE_CHECKING:
    from durable_adk.context import ReadonlyContext


class BaseToolset(ABC):
    """Tools from one source (semantics TOL-28)."""

    @abstractmethod
    async def get_tools(self, readonly_context: "ReadonlyContext | None" = None) -> list[BaseTool]:
        """The tools."""

    async def close(self) -> None:  # noqa: B027 - optional
        """Let go of what is held open."""
