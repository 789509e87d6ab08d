"""The interface of planners."""

from abc import ABC, abstractmethod
from collections.abc import Awaitable

from google.genai import types

from durable_adk.context.activity import CallbackContext, ReadonlyContext
from durable_adk.models.llm_request import LlmRequest


class BasePlanner(ABC):
    """Makes the model plan, and separates the plan from the answer in its response (FLW-95).

    Both methods may be sync or async and do any I/O. They run inside the activity of a model call,
    so they run again if the worker dies before the response is stored.
    """

    @abstractmethod
    def build_planning_instruction(
        self, readonly_context: ReadonlyContext, llm_request: LlmRequest
    ) -> str | Awaitable[str | None] | None:
        """Return text to add to the system instruction; None: nothing."""

    @abstractmethod
    def process_planning_response(
        self, callback_context: CallbackContext, response_parts: list[types.Part]
    ) -> list[types.Part] | Awaitable[list[types.Part] | None] | None:
        """Return parts to replace the model's; None or an empty list keeps the model's own.

        State written here is stored together with the response (FLW-96).
        """
