"""`BaseLlm`: the interface of a model."""

from abc import abstractmethod
from collections.abc import AsyncGenerator

from google.genai import types
from pydantic import BaseModel, ConfigDict

from durable_adk.models.llm_request import LlmRequest
from durable_adk.models.llm_response import LlmResponse

NO_MESSAGE = "Handle the requests as specified in the System Instruction."
GO_ON = (
    "Continue processing previous requests as instructed. Exit or provide a summary if no more "
    "outputs are needed."
)


class BaseLlm(BaseModel):
    """A model that answers requests (FLW-97)."""

    model_config = ConfigDict(arbitrary_types_allowed=True)

    model: str
    """The model's name, as the provider knows it."""

    @classmethod
    def supported_models(cls) -> list[str]:
        """Return regular expressions of the model names of this class, for `LLMRegistry`."""
        return []

    def load(self) -> None:
        """Import what the first call needs; a worker does so in a thread before it polls."""

    async def aclose(self) -> None:
        """Close the connections of the calling event loop; does nothing by default."""

    @abstractmethod
    def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        """Generate the response to a request.

        Yields one complete response or several; each may be preceded by partial ones if `stream`.
        Each complete response becomes an event. Its calls run when the generator has ended.

        Raises:
            ModelUnavailableError: A transient failure; the runtime retries after `retry_after`.
            ModelError: A permanent failure.
        """
        ...

    def _maybe_append_user_content(self, llm_request: LlmRequest) -> None:
        """Let a request that is empty or ends with the model's turn end with a user's.

        Providers refuse others (FLW-28). ADK's models call it, and so do users' own.
        """
        contents = llm_request.contents
        if not contents or contents[-1].role != "user":
            contents.append(types.UserContent(GO_ON if contents else NO_MESSAGE))
