"""Conversion of google-adk's objects; the only package that imports google.adk."""

from functools import partial
from typing import Any

from google.adk.agents.config_agent_utils import from_config
from google.adk.agents.run_config import RunConfig as AdkRunConfig
from google.adk.apps.app import (
    App as AdkApp,
    EventsCompactionConfig as AdkEventsCompactionConfig,
    ResumabilityConfig as AdkResumabilityConfig,
)
from google.adk.apps.base_events_summarizer import BaseEventsSummarizer as AdkBaseEventsSummarizer
from google.adk.code_executors.base_code_executor import BaseCodeExecutor as AdkBaseCodeExecutor
from google.adk.events.event import Event as AdkEvent
from google.adk.events.request_input import RequestInput as AdkRequestInput
from google.adk.models.base_llm import BaseLlm as AdkBaseLlm
from google.adk.models.llm_response import LlmResponse as AdkLlmResponse
from google.adk.planners.base_planner import BasePlanner as AdkBasePlanner
from google.adk.plugins.base_plugin import BasePlugin as AdkBasePlugin
from google.adk.tools.base_tool import BaseTool as AdkBaseTool
from google.adk.tools.base_toolset import BaseToolset as AdkBaseToolset
from google.adk.tools.function_tool import FunctionTool as AdkFunctionTool
from google.adk.workflow import BaseNode as AdkBaseNode

from durable_adk.interop.agents import our_agent, our_model
from durable_adk.interop.apps import our_app
from durable_adk.interop.callbacks import CallbackAdapter, takes_google_adks
from durable_adk.interop.nodes import function_node, our_node, our_request_input
from durable_adk.interop.options import (
    AdkSummarizer,
    our_code_executor,
    our_compaction,
    our_planner,
    our_resumability,
    our_run_config,
)
from durable_adk.interop.plugin import AdkPlugin
from durable_adk.interop.proxies import AgentProxy
from durable_adk.interop.tools import our_tool
from durable_adk.interop.values import our_event, our_response

__all__ = ["from_google_adk", "our_model"]

_OURS: list[tuple[Any, Any]] = [
    (AdkApp, our_app),
    (AdkBaseNode, our_node),
    ((AdkBaseTool, AdkBaseToolset), partial(our_tool, agent_of=our_agent)),
    (AdkBaseLlm, our_model),
    (AdkBasePlugin, AdkPlugin),
    (AdkBasePlanner, our_planner),
    (AdkBaseCodeExecutor, our_code_executor),
    (AdkBaseEventsSummarizer, AdkSummarizer),
    (AdkEventsCompactionConfig, our_compaction),
    (AdkResumabilityConfig, our_resumability),
    (AdkRunConfig, our_run_config),
    (AdkEvent, our_event),
    (AdkLlmResponse, our_response),
    (AdkRequestInput, our_request_input),
]


def agent_of_config(path: str) -> Any:
    """See `durable_adk.google_objects.agent_of_config`."""
    return our_agent(from_config(path))


def callable_from_google_adk(function: Any, *, tool: bool, truthy: bool) -> Any:
    """See `durable_adk.google_objects.callable_from_google_adk`."""
    if isinstance(function, CallbackAdapter) or not takes_google_adks(function):
        return function
    if tool:
        return our_tool(AdkFunctionTool(func=function), our_agent)
    return CallbackAdapter(function, truthy=truthy)


def node_from_google_adk(function: Any, options: dict[str, Any]) -> Any:
    """See `durable_adk.google_objects.node_from_google_adk`."""
    return function_node(function, **options) if takes_google_adks(function) else None


def from_google_adk(value: Any) -> Any:
    """Convert an object of google-adk to this package's; return other objects unchanged."""
    if isinstance(value, AgentProxy):
        return value.ours
    for kind, ours in _OURS:
        if isinstance(value, kind):
            return ours(value)
    return value
