"""The planner that relies on the model's own thinking."""

from google.genai import types

from durable_adk.context.activity import CallbackContext, ReadonlyContext
from durable_adk.models.llm_request import LlmRequest
from durable_adk.planners.base_planner import BasePlanner


class BuiltInPlanner(BasePlanner):
    """Sets the thinking configuration of every request (FLW-95)."""

    thinking_config: types.ThinkingConfig
    """How much the model may think, and whether its thoughts are included."""

    def __init__(self, *, thinking_config: types.ThinkingConfig) -> None:
        self.thinking_config = thinking_config

    def apply_thinking_config(self, llm_request: LlmRequest) -> None:
        """Set the configuration on a request, replacing an existing one."""
        llm_request.config.thinking_config = self.thinking_config.model_copy(deep=True)

    def build_planning_instruction(
        self, readonly_context: ReadonlyContext, llm_request: LlmRequest
    ) -> str | None:
        """Return None: the model needs no instruction to think."""
        del readonly_context, llm_request

    def process_planning_response(
        self, callback_context: CallbackContext, response_parts: list[types.Part]
    ) -> list[types.Part] | None:
        """Return None: the provider has marked the thoughts."""
        del callback_context, response_parts
