"""Conversion of google-adk's agents to this package's."""

# pyright: reportPrivateUsage=false, reportDeprecated=false
# google-adk deprecates these agents for graph workflows, which do not support LlmAgents with
# sub-agents yet.

from collections.abc import Iterator, Sequence
from typing import Any, cast

from google.adk.agents.base_agent import BaseAgent as AdkBaseAgent
from google.adk.agents.llm_agent import LlmAgent as AdkLlmAgent
from google.adk.agents.loop_agent import LoopAgent as AdkLoopAgent
from google.adk.agents.parallel_agent import ParallelAgent as AdkParallelAgent
from google.adk.agents.sequential_agent import SequentialAgent as AdkSequentialAgent
from google.adk.models.base_llm import BaseLlm as AdkBaseLlm
from google.adk.models.google_llm import Gemini as AdkGemini
from google.adk.models.registry import LLMRegistry as AdkRegistry
from google.adk.tools._node_tool import NodeTool as AdkNodeTool
from google.adk.tools.base_tool import BaseTool as AdkBaseTool
from google.adk.tools.base_toolset import BaseToolset as AdkBaseToolset
from google.adk.tools.function_tool import FunctionTool as AdkFunctionTool
from google.adk.tools.google_search_agent_tool import (
    GoogleSearchAgentTool as AdkGoogleSearchAgentTool,
    create_google_search_agent,
)
from google.adk.tools.google_search_tool import GoogleSearchTool as AdkGoogleSearchTool
from google.adk.tools.vertex_ai_search_tool import VertexAiSearchTool as AdkVertexAiSearchTool
from google.adk.workflow import BaseNode as AdkBaseNode
from pydantic import BaseModel

from durable_adk.agents.base_agent import BaseAgent
from durable_adk.agents.llm_agent import LlmAgent
from durable_adk.agents.loop_agent import LoopAgent
from durable_adk.agents.parallel_agent import ParallelAgent
from durable_adk.agents.sequential_agent import SequentialAgent
from durable_adk.errors import AgentDefinitionError
from durable_adk.google_objects import from_google_adk
from durable_adk.graph.base_node import BaseNode
from durable_adk.graph.workflow import Workflow
from durable_adk.interop.callbacks import CallbackAdapter, provider
from durable_adk.interop.loop import FromAdk, Remote, WithBody
from durable_adk.interop.model import AdkModel
from durable_adk.interop.options import node_fields, our_code_executor, our_planner
from durable_adk.interop.proxies import AgentProxy
from durable_adk.interop.tools import node_as_tool, our_tool
from durable_adk.models.base_llm import BaseLlm
from durable_adk.models.registry import LLMRegistry
from durable_adk.tools.base_tool import BaseTool
from durable_adk.tools.base_toolset import BaseToolset

_REFUSED = {
    "LangGraphAgent": "it keeps its own checkpoints; call the graph in a tool",
    "ManagedAgent": "its steps run at Google; call it in a tool",
    "AntigravityAgent": "it runs its own loop; call it in a tool",
    "AgentRouter": "it chooses agents by a model of its own; use transfer between sub_agents",
}
_TRUTHY = ("before_model_callback", "after_model_callback")
_OTHERS = (
    "on_model_error_callback",
    "before_tool_callback",
    "after_tool_callback",
    "on_tool_error_callback",
)
_SAME = (
    "mode",
    "parallel_worker",
    "static_instruction",
    "generate_content_config",
    "disallow_transfer_to_parent",
    "disallow_transfer_to_peers",
    "output_key",
)
"""Fields of an LlmAgent that have the same meaning in both packages."""


class LlmAgentOfAdk(FromAdk, LlmAgent):
    """An LlmAgent of google-adk."""

    @property
    def canonical_model(self) -> BaseLlm:
        """See base class; without a model, google-adk's default."""
        if self._model_name is None and self._model is None:
            default = our_model(AdkLlmAgent._default_model)
            known = isinstance(default, BaseLlm)
            self._model = default if known else LLMRegistry.new_llm(default)
        return self._model or super().canonical_model


class SequentialAgentOfAdk(FromAdk, SequentialAgent):
    """A SequentialAgent of google-adk."""


class LoopAgentOfAdk(FromAdk, LoopAgent):
    """A LoopAgent of google-adk."""


class ParallelAgentOfAdk(FromAdk, ParallelAgent):
    """A ParallelAgent of google-adk."""


class LlmAgentWithBody(WithBody, LlmAgentOfAdk):
    """An LlmAgent of google-adk whose class overrides the body."""


class SequentialAgentWithBody(WithBody, SequentialAgent):
    """A SequentialAgent of google-adk whose class overrides the body."""


class LoopAgentWithBody(WithBody, LoopAgent):
    """A LoopAgent of google-adk whose class overrides the body."""


class ParallelAgentWithBody(WithBody, ParallelAgent):
    """A ParallelAgent of google-adk whose class overrides the body."""


_KINDS: list[tuple[type[Any], type[FromAdk], type[WithBody]]] = [
    (AdkLlmAgent, LlmAgentOfAdk, LlmAgentWithBody),
    (AdkSequentialAgent, SequentialAgentOfAdk, SequentialAgentWithBody),
    (AdkLoopAgent, LoopAgentOfAdk, LoopAgentWithBody),
    (AdkParallelAgent, ParallelAgentOfAdk, ParallelAgentWithBody),
]


def our_agent(agent: Any, made: dict[int, BaseNode] | None = None) -> BaseAgent:
    """Convert an agent of google-adk, and all agents below it.

    Args:
        agent: The agent, or google-adk's proxy of one of this package's agents.
        made: The nodes converted so far, by the ids of google-adk's.

    Raises:
        AgentDefinitionError: An agent cannot run durably; the message names it.
    """
    made = {} if made is None else made
    if isinstance(agent, AgentProxy):
        return agent.ours
    if isinstance(agent, BaseAgent):
        return agent  # google-adk's AgentTool checks no class
    if id(agent) not in made:
        made[id(agent)] = _made(agent, made)
    return cast("BaseAgent", made[id(agent)])


def _made(agent: Any, made: dict[int, BaseNode]) -> BaseAgent:
    _check(agent)
    fields: dict[str, Any] = node_fields(agent) | {
        "sub_agents": [
            our_agent(child, made) for child in (*agent.sub_agents, *_agents_in_fields(agent))
        ],
        "before_agent_callback": _callbacks(agent.before_agent_callback, truthy=True),
        "after_agent_callback": _callbacks(agent.after_agent_callback, truthy=True),
    }
    if isinstance(agent, AdkLlmAgent):
        fields |= _llm_fields(agent, made)
    if isinstance(agent, AdkLoopAgent):
        fields["max_iterations"] = agent.max_iterations
    return _kind(agent)(**fields).converted_from(agent)


def _kind(agent: Any) -> type[FromAdk]:
    if any(base.__name__ == "RemoteA2aAgent" for base in cast("Any", type(agent)).__mro__):
        return Remote
    for adk, built_in, with_body in _KINDS:
        if isinstance(agent, adk):
            own = cast("Any", type(agent))
            same = own._run_async_impl is adk._run_async_impl
            return built_in if same else with_body
    return WithBody


def _check(agent: Any) -> None:
    """Check that an agent can run durably.

    Raises:
        AgentDefinitionError: It cannot; the message gives the reason and the remedy.
    """
    what = f"{type(agent).__name__} {getattr(agent, 'name', '')!r}"
    if not isinstance(agent, AdkBaseAgent):
        raise AgentDefinitionError(
            f"{what} is a node of a graph and no agent; use it in the edges of a Workflow."
        )
    for base in type(agent).__mro__:
        if base.__module__.startswith("google.adk.") and base.__name__ in _REFUSED:
            raise AgentDefinitionError(f"{what} cannot run durably: {_REFUSED[base.__name__]}.")


def _agents_in_fields(agent: Any) -> Iterator[Any]:
    """Yield the agents that a custom agent holds in its own fields, not as sub-agents."""
    known = {id(child) for child in agent.sub_agents}
    kind = cast("type[BaseModel]", type(agent))
    own = kind.model_fields.keys() - AdkLlmAgent.model_fields.keys()
    for name in sorted(own):
        value: Any = getattr(agent, name)
        for one in _listed(value):
            is_agent = isinstance(one, AdkBaseAgent) and one is not agent
            if is_agent and one.parent_agent in (None, agent) and id(one) not in known:
                known.add(id(one))
                yield one


def _listed(value: Any) -> Sequence[Any]:
    if isinstance(value, dict):
        return list(cast("dict[Any, Any]", value).values())
    return cast("Sequence[Any]", value) if isinstance(value, (list, tuple)) else [value]


def _callbacks(callbacks: Any, *, truthy: bool) -> list[CallbackAdapter] | None:
    if callbacks is None:
        return None
    listed = cast("list[Any]", callbacks) if isinstance(callbacks, list) else [callbacks]
    return [CallbackAdapter(one, truthy=truthy) for one in listed]


def _llm_fields(agent: Any, made: dict[int, BaseNode]) -> dict[str, Any]:
    fields = {name: getattr(agent, name) for name in _SAME}
    if "include_contents" in agent.model_fields_set:  # else it depends on the mode
        fields["include_contents"] = agent.include_contents
    fields |= {name: _callbacks(getattr(agent, name), truthy=True) for name in _TRUTHY}
    fields |= {name: _callbacks(getattr(agent, name), truthy=False) for name in _OTHERS}
    return fields | {
        "model": our_model(agent.model),
        "instruction": provider(agent.instruction),
        "global_instruction": provider(agent.global_instruction),
        "tools": [_tool(_with_multi_tool_workaround(tool, agent), made) for tool in agent.tools],
        "planner": agent.planner and our_planner(agent.planner),
        "code_executor": agent.code_executor and our_code_executor(agent.code_executor),
    }


def _with_multi_tool_workaround(tool: Any, agent: Any) -> Any:
    """Replace a provider's tool that cannot be used alongside others, as google-adk does."""
    if len(agent.tools) < 2 or not getattr(tool, "bypass_multi_tools_limit", False):  # noqa: PLR2004 - more than one
        return tool
    if isinstance(tool, AdkGoogleSearchTool):
        return AdkGoogleSearchAgentTool(create_google_search_agent(agent.canonical_model))
    if isinstance(tool, AdkVertexAiSearchTool):
        return tool._to_discovery_engine_search_tool()
    return tool


def _tool(tool: Any, made: dict[int, BaseNode]) -> Any:
    if isinstance(tool, AdkBaseAgent):
        _check(tool)
        raise AgentDefinitionError(f"The agent {tool.name!r} is no tool; use AgentTool(agent).")
    node = tool.node if isinstance(tool, AdkNodeTool) and tool.name == tool.node.name else tool
    if isinstance(node, AdkBaseNode):
        ours = from_google_adk(node)
        if not isinstance(ours, Workflow):
            raise node_as_tool(node.name)
        return ours
    if isinstance(tool, BaseTool | BaseToolset):
        return tool
    if isinstance(tool, AdkBaseTool | AdkBaseToolset):
        return our_tool(tool, lambda agent: our_agent(agent, made))
    return our_tool(AdkFunctionTool(func=tool), our_agent)


def our_model(model: Any) -> Any:
    """Convert a model of google-adk; keep a name, unless only google-adk's registry knows it."""
    if isinstance(model, AdkBaseLlm):
        return AdkModel.of(model)
    if not isinstance(model, str) or not model:
        return model
    try:
        kind = AdkRegistry.resolve(model)
    except ValueError:
        return model  # this package's registry may know it
    return model if kind is AdkGemini else AdkModel.of(AdkRegistry.new_llm(model))
