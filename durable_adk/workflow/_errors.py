"""The errors of workflows at ADK's module path."""

from durable_adk.errors import (
    DynamicNodeFailError,
    GraphValidationError,
    NodeInterruptedError,
    NodeTimeoutError,
    WorkflowConfigurationError,
    WorkflowDataError,
    WorkflowInvariantError,
)

__all__ = [
    "DynamicNodeFailError",
    "GraphValidationError",
    "NodeInterruptedError",
    "NodeTimeoutError",
    "WorkflowConfigurationError",
    "WorkflowDataError",
    "WorkflowInvariantError",
]
