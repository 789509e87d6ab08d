"""`utils.streaming_utils`: what a model of one's own over google-genai needs."""

import pytest
from google.genai import types

from durable_adk.errors import InvalidRequestError
from durable_adk.utils.streaming_utils import StreamingResponseAggregator


def chunk(*parts: types.Part, reason: str | None = None) -> types.GenerateContentResponse:
    """A piece of a stream."""
    content = types.Content(role="model", parts=list(parts))
    return types.GenerateContentResponse(
        candidates=[types.Candidate(content=content, finish_reason=reason)]
    )


async def test_chunks_are_partial_and_their_whole_is_not() -> None:
    """Each is passed on as it comes; the whole has the parts in their order, texts joined."""
    call = types.Part.from_function_call(name="f", args={"x": 1})
    stream = [chunk(types.Part(text="Bon")), chunk(types.Part(text="jour")), chunk()]
    stream += [chunk(call, reason="STOP")]
    aggregator = StreamingResponseAggregator()
    partials = [partial for each in stream async for partial in aggregator.process_response(each)]
    assert [partial.partial for partial in partials] == [True, True, True]
    whole = aggregator.close()
    assert whole is not None
    assert not whole.partial
    assert whole.content is not None
    assert whole.content.parts == [types.Part(text="Bonjour"), call]
    assert whole.finish_reason == types.FinishReason.STOP


async def test_without_a_chunk_there_is_no_response() -> None:
    """As in ADK."""
    assert StreamingResponseAggregator().close() is None


async def test_half_a_call_is_refused() -> None:
    """Its arguments would be run as far as they had come."""
    half = types.Part(function_call=types.FunctionCall(name="f", will_continue=True))
    with pytest.raises(InvalidRequestError, match="stream_function_call_arguments"):
        [_ async for _ in StreamingResponseAggregator().process_response(chunk(half))]
