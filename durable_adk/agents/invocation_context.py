"""`InvocationContext` at the path ADK gives it."""

from durable_adk.context.loop import InvocationContext
from durable_adk.errors import LlmCallsLimitExceededError

__all__ = ["InvocationContext", "LlmCallsLimitExceededError"]
