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
        """Return regular expressions of the supported model names, for `LLMRegistry`."""
        return []

    def load(self) -> None:
        """Import modules for the first call; a worker calls this in a thread before it polls."""

    async def aclose(self) -> None:
        """Close the connections of the calling event loop; does nothing by default."""

    @abstractmethod
    def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        """Generate the response to a request.

        Yields one or more complete responses, each preceded by partial ones if `stream`. Each
        complete response becomes an event. Its function calls run after the generator has ended.

        Raises:
            ModelUnavailableError: A transient failure; the runtime retries after `retry_after`.
            ModelError: A permanent failure.
        """
        ...

    def _maybe_append_user_content(self, llm_request: LlmRequest) -> None:
        """Append a user turn if the request is empty or ends with the model's turn.

        Providers refuse such requests (FLW-28). Called by ADK's models and by users' own.
        """
        contents = llm_request.contents
        if not contents or contents[-1].role != "user":
            contents.append(types.UserContent(GO_ON if contents else NO_MESSAGE))
