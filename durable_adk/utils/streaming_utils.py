"""Aggregates the chunks of a streamed response, for a `BaseLlm` over google-genai."""

from collections.abc import AsyncGenerator

from google.genai import types

from durable_adk.errors import InvalidRequestError
from durable_adk.models._gemini_responses import merge, to_llm_response, to_partial
from durable_adk.models.llm_response import LlmResponse


class StreamingResponseAggregator:
    """Yields each chunk of a stream as a partial response, then returns the whole (FLW-72)."""

    def __init__(self) -> None:
        self._chunks: list[types.GenerateContentResponse] = []

    async def process_response(
        self, response: types.GenerateContentResponse
    ) -> AsyncGenerator[LlmResponse, None]:
        """Yield a chunk as a partial response, if it adds anything.

        Raises:
            InvalidRequestError: It has a piece of a call's arguments. Half a call is never run, so
                `stream_function_call_arguments` must be off.
        """
        for part in response.parts or []:
            call = part.function_call
            if call and (call.partial_args or call.will_continue is not None):
                raise InvalidRequestError(
                    f"The call of {call.name or 'a function'}() comes in pieces; turn "
                    "stream_function_call_arguments off."
                )
        self._chunks.append(response)
        partial = to_partial(response)
        if partial is not None:
            yield partial

    def close(self) -> LlmResponse | None:
        """Return the complete response; None if there was no chunk."""
        return to_llm_response(merge(self._chunks)) if self._chunks else None
