"""`InvocationContext` at the path ADK gives it."""

from durable_adk.errors import LlmCallsLimitExceededError
from durable_adk.loop_context import InvocationContext

__all__ = ["InvocationContext", "LlmCallsLimitExceededError"]
