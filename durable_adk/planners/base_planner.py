"""The port to a planner."""

from abc import ABC, abstractmethod
from collections.abc import Awaitable

from google.genai import types

from durable_adk.context.activity import CallbackContext, ReadonlyContext
from durable_adk.models.llm_request import LlmRequest


class BasePlanner(ABC):
    """Makes the model plan, and tells plan from answer in what it says (FLW-95).

    Both methods may be sync or async and do any I/O: they run inside the activity of a model call,
    so again when the worker dies before its answer is stored.
    """

    @abstractmethod
    def build_planning_instruction(
        self, readonly_context: ReadonlyContext, llm_request: LlmRequest
    ) -> str | Awaitable[str | None] | None:
        """What is added to the system instruction; None: nothing."""

    @abstractmethod
    def process_planning_response(
        self, callback_context: CallbackContext, response_parts: list[types.Part]
    ) -> list[types.Part] | Awaitable[list[types.Part] | None] | None:
        """The parts that take the place of the model's; None or none at all: its own stay.

        State written here is stored together with the answer (FLW-96).
        """
