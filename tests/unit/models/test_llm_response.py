"""Responses that a model of one's own makes of google-genai's."""

import pytest
from google.genai import types

from durable_adk.models import LlmResponse

CALL = types.Part(function_call=types.FunctionCall(name="f"))
ANSWER = types.Part(function_response=types.FunctionResponse(name="f"))


def response(*parts: types.Part, reason: str = "STOP", **fields: object) -> LlmResponse:
    """What `create` makes of a candidate."""
    content = types.Content(role="model", parts=list(parts)) if parts else None
    candidate = types.Candidate(content=content, finish_reason=reason, **fields)
    usage = types.GenerateContentResponseUsageMetadata(total_token_count=7)
    return LlmResponse.create(
        types.GenerateContentResponse(candidates=[candidate], usage_metadata=usage)
    )


def test_a_candidate_is_the_content() -> None:
    """With all that the provider said of it."""
    made = response(CALL, ANSWER, avg_logprobs=-0.5)
    assert made.get_function_calls() == [CALL.function_call]
    assert made.get_function_responses() == [ANSWER.function_response]
    assert (made.finish_reason, made.avg_logprobs) == (types.FinishReason.STOP, -0.5)
    assert made.usage_metadata
    assert made.usage_metadata.total_token_count == 7


def test_an_empty_candidate_is_an_error_unless_it_stopped() -> None:
    """Named after its reason, as in ADK."""
    made = response(reason="SAFETY", finish_message="no")
    assert (made.error_code, made.error_message, made.content) == ("SAFETY", "no", None)
    assert response().error_code is None


@pytest.mark.parametrize("blocked", [True, False])
def test_without_candidates_the_reason_counts(*, blocked: bool) -> None:
    """A blocked prompt is an error; nothing at all is an empty content, as in ADK."""
    feedback = types.GenerateContentResponsePromptFeedback(
        block_reason="OTHER", block_reason_message="why"
    )
    made = LlmResponse.create(
        types.GenerateContentResponse(prompt_feedback=feedback if blocked else None)
    )
    assert made.error_code == ("OTHER" if blocked else None)
    assert made.content == (None if blocked else types.Content(role="model", parts=[]))
