"""`LlmAgent`: the agent that calls a model."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from functools import cached_property
from typing import Any, Literal, TypeAlias

from google.genai import types
from pydantic import BaseModel, Field, PrivateAttr, ValidationInfo, field_validator

from durable_adk.agents.base_agent import BaseAgent
from durable_adk.calling.closing import closing
from durable_adk.code_executors.base_code_executor import BaseCodeExecutor
from durable_adk.code_executors.built_in_code_executor import BuiltInCodeExecutor
from durable_adk.context.activity import CallbackContext, ReadonlyContext, ToolContext
from durable_adk.context.loop import InvocationContext
from durable_adk.errors import AgentDefinitionError, GraphValidationError
from durable_adk.events.event import Event
from durable_adk.google_objects import all_from_google_adk, from_google_adk
from durable_adk.graph.base_node import START, BaseNode
from durable_adk.graph.node_tool import NodeTool, tool_of
from durable_adk.graph.parallel_worker import ParallelWorker
from durable_adk.graph.workflow import Workflow
from durable_adk.log import get_logger
from durable_adk.models.base_llm import BaseLlm
from durable_adk.models.llm_request import LlmRequest
from durable_adk.models.llm_response import LlmResponse
from durable_adk.models.registry import LLMRegistry
from durable_adk.planners.base_planner import BasePlanner
from durable_adk.tools.base_tool import BaseTool
from durable_adk.tools.base_toolset import BaseToolset, load_tools
from durable_adk.tools.output_schema import check_output_schema
from durable_adk.wire.manifest import AgentNode, ToolSpec
from durable_adk.wire.tool_contract import ToolContract

logger = get_logger(__name__)

StaticInstruction: TypeAlias = (
    str | types.Content | types.Part | types.File | list[str | types.Part | types.File]
)
InstructionProvider: TypeAlias = Callable[[ReadonlyContext], str | Awaitable[str]]
BeforeModelCallback: TypeAlias = Callable[
    [CallbackContext, LlmRequest], LlmResponse | Awaitable[LlmResponse | None] | None
]
AfterModelCallback: TypeAlias = Callable[
    [CallbackContext, LlmResponse], LlmResponse | Awaitable[LlmResponse | None] | None
]
OnModelErrorCallback: TypeAlias = Callable[
    [CallbackContext, LlmRequest, Exception], LlmResponse | Awaitable[LlmResponse | None] | None
]
BeforeToolCallback: TypeAlias = Callable[
    [BaseTool, dict[str, Any], ToolContext], dict[str, Any] | Awaitable[Any] | None
]
AfterToolCallback: TypeAlias = Callable[
    [BaseTool, dict[str, Any], ToolContext, Any], dict[str, Any] | Awaitable[Any] | None
]
OnToolErrorCallback: TypeAlias = Callable[
    [BaseTool, dict[str, Any], ToolContext, Exception], dict[str, Any] | Awaitable[Any] | None
]


class LlmAgent(BaseAgent):
    """An agent driven by a model with tools.

    Its callbacks may be one callable or a list, sync or async, and are called with the keyword
    names that ADK uses; they run inside activities and may do any I/O.
    """

    model: str | BaseLlm = ""
    """A name for `LLMRegistry` or a model; if empty, inherited from the nearest LlmAgent above
    (AGT-11)."""
    instruction: str | InstructionProvider = ""
    """A template over state (AGT-13), or a provider whose text is used verbatim (AGT-12)."""
    global_instruction: str | InstructionProvider = ""
    """The root agent's global instruction precedes the instruction of every agent in the tree
    (AGT-14)."""
    tools: list[Any] = Field(default_factory=list[Any])
    """Callables, `BaseTool`s and toolsets (AGT-24)."""
    generate_content_config: types.GenerateContentConfig | None = None
    """Base config of every request; must not set options that the agent has fields for (AGT-18)."""
    static_instruction: StaticInstruction | None = None
    """Sent verbatim as the system instruction; `instruction` is then sent in the contents, so
    that the provider's prefix cache stays valid (AGT-16)."""
    mode: Literal["chat", "task", "single_turn"] | None = None
    """How the agent takes part in a conversation: ``chat`` talks to the user, ``task`` does so
    until it calls `finish_task`, ``single_turn`` answers its input. None: ``chat``, and
    ``single_turn`` as node of a graph. A sub-agent with ``task`` or ``single_turn`` is a tool of
    its parent."""
    parallel_worker: bool | None = None
    """Whether the agent, as node of a graph, runs once for each item of its input."""
    planner: BasePlanner | None = None
    """Makes the model plan before it acts (AGT-23, FLW-95)."""
    code_executor: BaseCodeExecutor | None = None
    """Runs code that the model writes; None to run no code (AGT-23, FLW-90)."""
    disallow_transfer_to_parent: bool = False
    disallow_transfer_to_peers: bool = False
    include_contents: Literal["default", "none"] = "default"
    """With ``none``, the model sees only the current turn (AGT-17)."""
    input_schema: type[BaseModel] | None = None
    """Schema of the agent's input when it is used as a tool; text by default (AGT-20)."""
    output_schema: Any = None
    """Schema of the response: a pydantic model, or another type such as ``list[Model]``. With
    tools or transfer targets, the model responds by calling `set_model_response` (AGT-19)."""
    output_key: str | None = None
    """State key under which the agent's response is saved (AGT-21)."""
    before_model_callback: BeforeModelCallback | Sequence[BeforeModelCallback] | None = None
    after_model_callback: AfterModelCallback | Sequence[AfterModelCallback] | None = None
    on_model_error_callback: OnModelErrorCallback | Sequence[OnModelErrorCallback] | None = None
    before_tool_callback: BeforeToolCallback | Sequence[BeforeToolCallback] | None = None
    after_tool_callback: AfterToolCallback | Sequence[AfterToolCallback] | None = None
    on_tool_error_callback: OnToolErrorCallback | Sequence[OnToolErrorCallback] | None = None

    _model: BaseLlm | None = PrivateAttr(default=None)
    _tools: dict[int, tuple[Any, BaseTool]] = PrivateAttr(
        default_factory=dict[int, tuple[Any, BaseTool]]
    )

    @field_validator("model", "planner", "code_executor", mode="before")
    @classmethod
    def _ours(cls, value: Any) -> Any:
        return from_google_adk(value)

    @field_validator("tools", mode="before")
    @classmethod
    def _our_tools(cls, value: Any) -> Any:
        return all_from_google_adk(value)

    @field_validator("generate_content_config")
    @classmethod
    def _only_generation(
        cls, value: types.GenerateContentConfig | None
    ) -> types.GenerateContentConfig | None:
        """Reject options that have their own field on the agent (AGT-18)."""
        elsewhere = {
            "tools": "tools",
            "system_instruction": "instruction",
            "response_schema": "output_schema",
        }
        for field, own in elsewhere.items():
            if value is not None and getattr(value, field):
                raise ValueError(f"set the agent's {own}, not generate_content_config.{field}")
        return value

    @field_validator("output_schema")
    @classmethod
    def _usable_node_schema(cls, value: Any, info: ValidationInfo) -> Any:
        del info
        if value is not None:
            check_output_schema(value)
        return value

    @property
    def answers_by_tool(self) -> bool:
        """Whether the model responds by calling `set_model_response` instead of text (AGT-19)."""
        several = bool(self.tools or self.transfer_targets or self.sub_agent_tools)
        return self.output_schema is not None and several and self.mode != "task"

    @property
    def canonical_model(self) -> BaseLlm:
        """The model, resolved by name or inherited (AGT-11).

        Raises:
            AgentDefinitionError: Neither this agent nor an agent above it sets a model.
        """
        if isinstance(self.model, BaseLlm):
            return self.model
        if self.model:
            # Created once, because a model holds connections.
            if self._model is None or self._model.model != self.model:
                self._model = LLMRegistry.new_llm(self.model)
            return self._model
        above = self.parent_agent
        while above is not None:
            if isinstance(above, LlmAgent):
                return above.canonical_model
            above = above.parent_agent
        raise AgentDefinitionError(
            f"No model found for {self.name}; set its model, or that of an agent above it."
        )

    @property
    def _model_name(self) -> str | None:
        """The name of `canonical_model`, without creating it; None if no agent sets a model."""
        if self.model:
            return self.model if isinstance(self.model, str) else self.model.model
        above = self.parent_agent
        while above is not None and not isinstance(above, LlmAgent):
            above = above.parent_agent
        return above._model_name if above else None  # noqa: SLF001 - of the same class

    async def close(self) -> None:
        """Close toolsets, and the model's connections in the calling event loop."""
        model = self.model if isinstance(self.model, BaseLlm) else self._model
        if model is not None:
            await model.aclose()
        for item in self.tools:
            if isinstance(item, BaseToolset):
                await item.close()

    @property
    def transfer_targets(self) -> list[BaseAgent]:
        """The agents that the model may transfer to: sub-agents, parent and peers (AGT-51)."""
        targets = list(self.sub_agents)
        parent = self.parent_agent
        if isinstance(parent, LlmAgent) and not self._is_called:
            if not self.disallow_transfer_to_parent:
                targets.append(parent)
            if not self.disallow_transfer_to_peers:
                targets += [peer for peer in parent.sub_agents if peer is not self]
        called = [one for one in targets if isinstance(one, LlmAgent) and one._is_called]  # noqa: SLF001
        return [one for one in targets if one not in called]

    @property
    def _is_called(self) -> bool:
        """Whether the parent runs the agent by a call, and does not hand over to it (GR-175)."""
        return self.parent_agent is not None and self.mode in ("task", "single_turn")

    @cached_property
    def sub_agent_tools(self) -> list[NodeTool]:
        """The sub-agents that the model runs by calls (GR-175, GR-176)."""
        return [
            NodeTool(one, mode=one.mode)
            for one in self.sub_agents
            if isinstance(one, LlmAgent) and one.mode in ("task", "single_turn")
        ]

    @property
    def graph_tools(self) -> list[BaseNode]:
        """The graphs among the tools (GR-192)."""
        return [item for item in self.tools if isinstance(item, Workflow)]

    @property
    def sees_history(self) -> bool:
        """Whether the model sees earlier events, and not only those of its run (GR-174)."""
        chosen = "include_contents" in self.model_fields_set
        own = self.mode == "task" or (self.mode == "single_turn" and not chosen)
        return self.include_contents == "default" and not own

    def transfer_target(self, name: str) -> BaseAgent | None:
        """Return the transfer target with this name, or None (AGT-53)."""
        return next((agent for agent in self.transfer_targets if agent.name == name), None)

    def static_tools(self) -> dict[str, BaseTool]:
        """Return the tools outside of toolsets by name, with callables wrapped.

        Among tools with the same name, the last one wins (TOL-2).
        """
        single = (item for item in self.tools if not isinstance(item, BaseToolset))
        tools = [*map(self._wrapped, single), *self.sub_agent_tools]
        return {tool.name: tool for tool in tools}

    async def canonical_tools(self, ctx: ReadonlyContext | None = None) -> list[BaseTool]:
        """Return all tools of the agent, including those of its toolsets (AGT-24).

        An unavailable toolset is logged and skipped; the agent continues without it. Toolsets are
        queried concurrently, so that several timeouts take no longer than one.
        """
        found = await asyncio.gather(*(self._unpacked(item, ctx) for item in self.tools))
        tools = [*(tool for tools in found for tool in tools), *self.sub_agent_tools]
        return list({tool.name: tool for tool in tools}.values())

    async def _unpacked(self, item: Any, ctx: ReadonlyContext | None) -> list[BaseTool]:
        if isinstance(item, BaseToolset):
            return await load_tools(item, ctx) or []
        return [self._wrapped(item)]

    def _wrapped(self, item: Any) -> BaseTool:
        """Convert an entry of `tools`; cached, since inspecting a signature takes milliseconds."""
        known = self._tools.get(id(item))
        if known is None or known[0] is not item:
            known = self._tools[id(item)] = (item, tool_of(item))
        return known[1]

    async def _run_async_impl(self, ctx: InvocationContext) -> AsyncGenerator[Event, None]:
        """Call the model and run its tools until it gives a final response (FLW-1)."""
        node = self.node()
        node.kind = "llm"
        async with closing(ctx.loop.run_built_in(node, ctx)) as events:
            async for event in events:
                yield event

    def in_graph(self, **changes: Any) -> BaseNode:
        """See `BaseNode.in_graph`; a copy with the mode that it has in a graph (GR-19).

        A sub-agent of another agent chats, as ever.
        """
        mode = self.mode or ("single_turn" if self.parent_agent is None else "chat")
        fields: dict[str, Any] = {"rerun_on_resume": True, "mode": mode, "parallel_worker": None}
        if mode != "single_turn":
            fields["wait_for_output"] = True
        elif "include_contents" not in self.model_fields_set:
            fields["include_contents"] = "none"
        agent = self.with_changes(**fields | changes)
        return ParallelWorker(node=agent) if self.parallel_worker else agent

    @property
    def never_ends(self) -> bool:
        """See `BaseNode.never_ends`."""
        return self.mode == "chat"

    def validate_predecessor(self, predecessor: BaseNode) -> None:
        """See `BaseNode.validate_predecessor` (GR-34).

        Raises:
            GraphValidationError: The agent chats, and another node is before it.
        """
        if self.mode == "chat" and predecessor is not START:
            raise GraphValidationError(
                f"The agent '{self.name}' has been added to the workflow with mode='chat' "
                f"following node '{predecessor.name}'. This is not supported because chat-mode "
                "agents rely on conversational history (session events) and cannot consume direct "
                "node inputs from preceding nodes. Please change the agent's mode to 'single_turn'"
            )

    def node(self) -> AgentNode:
        """Return the manifest entry; see `BaseAgent.node`."""
        node = super().node()
        # The loop runs the body of a subclass that overrides it.
        if type(self)._run_async_impl is LlmAgent._run_async_impl:  # noqa: SLF001 - of the subclass
            node.kind = "llm"
        specs = {name: _spec(tool) for name, tool in self.static_tools().items()}
        node.tools = {name: spec for name, spec in specs.items() if spec != ToolSpec()}
        node.model = self._model_name
        node.mode = None if self.mode == "chat" else self.mode
        executor = self.code_executor
        if executor is not None and not isinstance(executor, BuiltInCodeExecutor):
            node.runs_code, node.code_timeout = True, executor.attempt_timeout
        if self.answers_by_tool:
            node.output_key = self.output_key
        return self._describe(node)


def is_task(agent: BaseNode | None) -> bool:
    """Return whether an agent talks to the user until it has finished its task."""
    return isinstance(agent, LlmAgent) and agent.mode == "task"


def _spec(tool: BaseTool) -> ToolSpec:
    default = tool.contract is ToolContract.AT_LEAST_ONCE
    return ToolSpec(
        timeout=tool.timeout,
        heartbeat_timeout=tool.heartbeat_timeout,
        contract=None if default else tool.contract,
        retry=tool.retry,
        task_queue=tool.task_queue,
        delegates=tool.delegates,
    )


Agent = LlmAgent
"""ADK's short name."""
