"""The tools of an MCP server."""

import asyncio
import copy
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TextIO, TypeAlias

from durable_adk.context.activity import ReadonlyContext
from durable_adk.log import get_logger
from durable_adk.tools.base_tool import BaseTool
from durable_adk.tools.base_toolset import BaseToolset, ToolPredicate
from durable_adk.tools.mcp_tool import _library
from durable_adk.tools.mcp_tool._connection import McpConnectionError
from durable_adk.tools.mcp_tool.mcp_session_manager import (
    MAX_SESSIONS,
    ConnectionParams,
    Headers,
    MCPSessionManager,
)
from durable_adk.tools.mcp_tool.mcp_tool import (
    HeaderProvider,
    McpTool,
    provided_headers,
)
from durable_adk.tools.require_confirmation import ConfirmationRule

logger = get_logger(__name__)
StdioServerParameters: TypeAlias = _library.StdioServerParameters


@dataclass
class _Listing:
    tools: list[McpTool]
    listed: float
    """Time of the listing, by `time.monotonic`."""
    stale: bool = False


class McpToolset(BaseToolset):
    """Connects when its tools are first needed, and keeps the connection and the list (TOL-29).

    The list is requested once per worker, and again when the server reports a change, when its
    session was lost (the server may have restarted), or after `refresh`. While the server is
    unavailable, the last known list is used.
    """

    def __init__(
        self,
        *,
        connection_params: "ConnectionParams | _library.StdioServerParameters",
        tool_filter: ToolPredicate | Sequence[str] | None = None,
        tool_name_prefix: str | None = None,
        tool_list_cache_ttl_seconds: float | None = None,
        errlog: TextIO | None = None,
        require_confirmation: ConfirmationRule = False,
        header_provider: HeaderProvider | None = None,
    ) -> None:
        """Configure the connection to the server.

        Args:
            connection_params: The server's connection parameters.
            tool_filter: Selects the tools to use: names, or a predicate.
            tool_name_prefix: Prefix of the tool names that the model sees.
            tool_list_cache_ttl_seconds: Seconds for which a list is used; None: see the class.
            errlog: Destination for the stderr of a stdio server; this process's stderr by default.
            require_confirmation: Whether a user must confirm a call (TOL-60).
            header_provider: Creates headers from the context of a step, for instance from its user;
                each set of headers has its own session and list.

        Raises:
            AgentDefinitionError: The mcp library is not installed.
        """
        super().__init__(tool_filter=tool_filter, tool_name_prefix=tool_name_prefix)
        self.require_confirmation = require_confirmation
        self.header_provider = header_provider
        self._ttl = tool_list_cache_ttl_seconds
        self._sessions = MCPSessionManager(
            connection_params, errlog, on_tools_changed=self._make_stale
        )
        self._listings: dict[Headers, _Listing] = {}
        self._pending_fetches: dict[
            tuple[asyncio.AbstractEventLoop, Headers], asyncio.Task[list[McpTool]]
        ] = {}

    def __repr__(self) -> str:
        return f"McpToolset({self._sessions.connection_params})"

    async def get_tools(self, readonly_context: ReadonlyContext | None = None) -> list[BaseTool]:
        """Return the server's tools that pass the filter, with their own names.

        Raises:
            McpConnectionError: The server is unavailable, and no earlier list is known.
            Exception: The filter or the header provider raised, or the server returned an error.
        """
        headers = await provided_headers(self.header_provider, readonly_context)
        tools = await self._cached_or_fetched(headers)
        tools = map(copy.copy, tools)  # the list is cached, and callbacks may change a tool
        return [tool for tool in tools if self._is_tool_selected(tool, readonly_context)]

    def refresh(self) -> None:
        """Request the list again when the tools are next needed."""
        for listing in list(self._listings.values()):
            listing.stale = True

    async def close(self) -> None:
        """Close the connections, within 10 seconds; the toolset can be used again (RUN-11)."""
        await self._sessions.close()

    async def _cached_or_fetched(self, headers: dict[str, str]) -> list[McpTool]:
        key = self._sessions.key(headers)
        known = self._listings.get(key)
        if known and self._fresh(known):
            return known.tools
        try:
            return await asyncio.shield(self._fetch_list_once(key, headers))
        except (McpConnectionError, _library.MCPError) as error:
            if known is None:
                raise
            logger.warning("mcp.list_is_old", toolset=repr(self), error_type=type(error).__name__)
            return known.tools

    def _fresh(self, listing: _Listing) -> bool:
        old = self._ttl is not None and time.monotonic() - listing.listed >= self._ttl
        return not (listing.stale or old)

    def _fetch_list_once(
        self, key: Headers, headers: dict[str, str]
    ) -> "asyncio.Task[list[McpTool]]":
        """Return the request in progress, or start one: many steps may need the list at once."""
        here = (asyncio.get_running_loop(), key)
        task = self._pending_fetches.get(here)
        if task is None:
            task = self._pending_fetches[here] = asyncio.create_task(self._fetch_list(key, headers))
            task.add_done_callback(lambda _: self._pending_fetches.pop(here, None))
            task.add_done_callback(lambda done: done.cancelled() or done.exception())
        return task

    async def _fetch_list(self, key: Headers, headers: dict[str, str]) -> list[McpTool]:
        found = await self._sessions.call(
            _all_tools, headers=headers, timeout=self._sessions.connection_params.timeout
        )
        tools = [
            McpTool(
                mcp_tool=tool,
                mcp_session_manager=self._sessions,
                require_confirmation=self.require_confirmation,
                header_provider=self.header_provider,
            )
            for tool in found
        ]
        while len(self._listings) >= MAX_SESSIONS:
            self._listings.pop(next(iter(self._listings)))
        self._listings[key] = _Listing(tools, time.monotonic())
        logger.info("mcp.listed", toolset=repr(self), tools=len(tools))
        return tools

    def _make_stale(self, headers: Headers) -> None:
        listing = self._listings.get(headers)
        if listing:
            listing.stale = True


async def _all_tools(session: _library.McpClientSession) -> "list[_library.types.Tool]":
    """List all tools, page by page."""
    tools: list[_library.types.Tool] = []
    cursor: str | None = None
    while True:
        params = _library.types.PaginatedRequestParams(cursor=cursor) if cursor else None
        page = await session.list_tools(params=params)
        tools += page.tools
        if not (cursor := page.next_cursor):
            return tools


MCPToolset = McpToolset
"""ADK's older name."""
