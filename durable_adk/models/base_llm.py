"""The port to a model."""

from abc import abstractmethod
from collections.abc import AsyncGenerator

from pydantic import BaseModel, ConfigDict

from durable_adk.models.llm_request import LlmRequest
from durable_adk.models.llm_response import LlmResponse


class BaseLlm(BaseModel):
    """A model that answers requests (semantics FLW-97)."""

    model_config = ConfigDict(arbitrary_types_allowed=True)

    model: str
    """The model's name, as the provider knows it."""

    @classmethod
    def supported_models(cls) -> list[str]:
        """Regular expressions of the model names this class serves; for `LLMRegistry`."""
        return []

    async def aclose(self) -> None:
        """Close the connections made in the calling event loop; nothing by default."""

    @abstractmethod
    def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        """Answer a request.

        Yields exactly one whole response, before it any number of partial ones if `stream`.

        Raises:
            ModelUnavailableError: Worth asking again; the engine does, after `retry_after`.
            ModelError: Not worth asking again.
        """
        ...
