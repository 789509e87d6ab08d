"""Agents."""

from durable_adk.agents.base_agent import BaseAgent
from durable_adk.agents.context_cache_config import ContextCacheConfig
from durable_adk.agents.llm_agent import Agent, LlmAgent
from durable_adk.agents.loop_agent import LoopAgent
from durable_adk.agents.parallel_agent import ParallelAgent
from durable_adk.agents.sequential_agent import SequentialAgent
from durable_adk.context.activity import Context
from durable_adk.context.loop import InvocationContext
from durable_adk.wire.run_config import RunConfig

__all__ = [
    "Agent",
    "BaseAgent",
    "Context",
    "ContextCacheConfig",
    "InvocationContext",
    "LlmAgent",
    "LoopAgent",
    "ParallelAgent",
    "RunConfig",
    "SequentialAgent",
]
