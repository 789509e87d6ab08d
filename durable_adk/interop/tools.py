"""Conversion of google-adk's tools and toolsets."""

# pyright: reportPrivateUsage=false
# google-adk's own tools, and its users, read some of its private attributes.

import copy
from collections.abc import Callable
from typing import Any

from google.adk.auth.credential_manager import CredentialManager
from google.adk.flows.llm_flows.prompt._dynamic_instructions import finalize_dynamic_instructions
from google.adk.tools._node_tool import NodeTool
from google.adk.tools.agent_tool import AgentTool as AdkAgentTool
from google.adk.tools.base_tool import BaseTool as AdkBaseTool
from google.adk.tools.base_toolset import BaseToolset as AdkBaseToolset
from google.adk.tools.function_tool import FunctionTool as AdkFunctionTool
from google.genai import types

from durable_adk.calling import call
from durable_adk.context.activity import Context, ReadonlyContext, ToolContext
from durable_adk.errors import AgentDefinitionError, MissingCredentialError
from durable_adk.interop.callbacks import adk_tool, adopt_request, shown_request
from durable_adk.interop.context import adk_readonly, shared_context
from durable_adk.log import get_logger
from durable_adk.models.llm_request import LlmRequest
from durable_adk.tools.agent_tool import AgentTool
from durable_adk.tools.base_tool import BaseTool, ToolOrToolset, only_runs_here
from durable_adk.tools.base_toolset import BaseToolset

logger = get_logger(__name__)
_HINT = "store it with the credential service, or give the toolset one; only tools ask the user"


def node_as_tool(name: str) -> AgentDefinitionError:
    """Return the error for a node of a graph, or a graph, among the tools of an agent."""
    return AgentDefinitionError(
        f"Tool {name!r} is a node of a graph, and only a Workflow is a tool; use a function, an "
        "AgentTool round an agent, or a Workflow with the node in its edges."
    )


class AdkTool(BaseTool):
    """A tool of google-adk: its own code, run as a step, with google-adk's context.

    Args:
        adk: The tool.

    Raises:
        AgentDefinitionError: It runs a node of a graph.
    """

    confirms_itself = True

    def __init__(self, adk: AdkBaseTool) -> None:
        if isinstance(adk, NodeTool):
            raise node_as_tool(adk.name)
        super().__init__(
            name=adk.name,
            description=adk.description or "",
            is_long_running=adk.is_long_running,
            custom_metadata=adk.custom_metadata,
        )
        self.adk = adk
        self._run = _in_threads(adk) if isinstance(adk, AdkFunctionTool) else adk
        declares = type(adk).process_llm_request is AdkBaseTool.process_llm_request
        self._only_declared = declares

    def _get_declaration(self) -> types.FunctionDeclaration | None:
        return self.adk._get_declaration()

    async def run_async(self, *, args: dict[str, Any], tool_context: ToolContext) -> Any:
        """See base class."""
        with shared_context(tool_context) as shared:
            return await self._run.run_async(args=args, tool_context=shared)

    async def process_llm_request(
        self, *, tool_context: ToolContext, llm_request: LlmRequest
    ) -> None:
        """See base class."""
        if self._only_declared:
            llm_request.append_tools([self])
            return
        await _prepared(self.adk, tool_context, llm_request, {self.adk.name: self})


async def _prepared(
    adk: Any, context: ToolContext, request: LlmRequest, wrapped: dict[str, BaseTool]
) -> None:
    """Let a tool or toolset of google-adk change a request."""
    shown = shown_request(request)
    with shared_context(context) as shared:
        await adk.process_llm_request(tool_context=shared, llm_request=shown)
        await finalize_dynamic_instructions(shared._invocation_context, shown)
    adopt_request(request, shown)
    for name, tool in shown.tools_dict.items():
        if name not in request.tools_dict:
            request.tools_dict[name] = wrapped.get(name) or AdkTool(tool)


def _in_threads(adk: AdkFunctionTool) -> AdkFunctionTool:
    """Return a copy of the tool whose function may block: a sync one runs in a thread."""
    copied = copy.copy(adk)

    async def invoke(target: Callable[..., Any], args_to_call: dict[str, Any]) -> Any:
        return await call(target, **args_to_call)

    copied._invoke_callable = invoke
    return copied


class AdkToolset(BaseToolset):
    """A toolset of google-adk; a worker opens it once, and closes it when it stops.

    Args:
        adk: The toolset.
    """

    def __init__(self, adk: AdkBaseToolset) -> None:
        super().__init__()
        self.adk = self.__wrapped__ = adk
        self._wrapped: dict[int, AdkTool] = {}

    def __repr__(self) -> str:
        return f"<{type(self.adk).__name__}>"

    async def get_tools(self, readonly_context: ReadonlyContext | None = None) -> list[BaseTool]:
        """See base class."""
        lacks = isinstance(readonly_context, Context) and await self._lacks(readonly_context)
        try:
            found = await self.adk.get_tools_with_prefix(adk_readonly(readonly_context))
        except Exception as error:
            if lacks:
                raise self._locked() from error
            raise
        if lacks and not found:
            raise self._locked()
        known, self._wrapped = self._wrapped, {}
        for tool in found:
            wrapped = known.get(id(tool))
            fits = wrapped is not None and wrapped.name == tool.name
            self._wrapped[id(tool)] = wrapped if fits and wrapped else AdkTool(tool)
        return [self._wrapped[id(tool)] for tool in found]

    async def process_llm_request(
        self, *, tool_context: ToolContext, llm_request: LlmRequest
    ) -> None:
        """See base class."""
        if type(self.adk).process_llm_request is not AdkBaseToolset.process_llm_request:
            await _prepared(self.adk, tool_context, llm_request, {})

    async def close(self) -> None:
        """See base class."""
        await self.adk.close()

    async def _lacks(self, context: Context) -> bool:
        """Provide the toolset's credential; return whether it needs one that is missing.

        google-adk asks the user for it. Here only tools can do that, so a toolset continues without
        it, with a warning in the log.
        """
        config = self.adk.get_auth_config()
        if config is None:
            return False
        credential = None
        with shared_context(context) as shared:
            manager = CredentialManager(config.model_copy(deep=True))
            try:
                credential = await manager.get_auth_credential(shared)
            except ValueError as error:  # as in google-adk, the toolset may not need it
                logger.debug("toolset.refused_credential", error_type=type(error).__name__)
            if credential is not None and config.credential_key is not None:
                invocation = shared._invocation_context
                invocation.credential_by_key[config.credential_key] = credential
        if credential is None:
            logger.warning("toolset.no_credential", toolset=repr(self), hint=_HINT)
        return credential is None

    def _locked(self) -> MissingCredentialError:
        return MissingCredentialError(f"{self!r} has no tools without its credential: {_HINT}")


class AdkAgentAsTool(AgentTool):
    """google-adk's `AgentTool`: its agent runs as a child workflow.

    Args:
        adk: The tool.
        agent: Its converted agent.
    """

    def __init__(self, adk: AdkAgentTool, agent: Any) -> None:
        super().__init__(agent, adk.skip_summarization, include_plugins=adk.include_plugins)
        self.name, self.description = adk.name, adk.description
        self.adk = adk


def our_tool(tool: Any, agent_of: Callable[[Any], Any]) -> BaseTool | BaseToolset:
    """Convert a tool or toolset of google-adk.

    Args:
        tool: The tool or toolset.
        agent_of: Converts an agent of google-adk.

    Raises:
        AgentDefinitionError: It is a function tool of google-adk made of one of ours.
    """
    if isinstance(tool, AdkBaseToolset):
        return AdkToolset(tool)
    if isinstance(tool, AdkFunctionTool) and isinstance(tool.func, ToolOrToolset):
        raise only_runs_here(tool.func)
    if isinstance(tool, AdkAgentTool) and type(tool).run_async is AdkAgentTool.run_async:
        return AdkAgentAsTool(tool, agent_of(tool.agent))
    return AdkTool(tool)


__all__ = ["AdkAgentAsTool", "AdkTool", "AdkToolset", "adk_tool", "our_tool"]
