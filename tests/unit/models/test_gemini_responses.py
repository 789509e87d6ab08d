"""The mapping of Gemini's answers."""

from itertools import pairwise

import pytest
from google.genai import types
from hypothesis import given, strategies as st

from durable_adk.models._gemini_responses import merge, to_llm_response, to_partial

THOUGHT = {"text": "hm", "thought": True}


def answer(**candidate):
    return types.GenerateContentResponse.model_validate(
        {"candidates": [candidate], "modelVersion": "m-1", "usageMetadata": {"totalTokenCount": 3}}
    )


def saying(*parts, **candidate):
    return answer(content={"role": "model", "parts": list(parts)}, **candidate)


def test_content_is_content_whatever_the_reason():
    """An answer that says something is no error, and keeps everything known about it (EVT-21)."""
    response = to_llm_response(
        saying({"text": "half"}, finishReason="MAX_TOKENS", avgLogprobs=-0.5, citationMetadata={})
    )
    assert response.content.parts[0].text == "half"
    assert response.error_code is None
    assert response.finish_reason == types.FinishReason.MAX_TOKENS
    assert response.avg_logprobs == -0.5
    assert response.citation_metadata is not None
    assert response.usage_metadata.total_token_count == 3
    assert response.model_version == "m-1"


@pytest.mark.parametrize("reason", ["SAFETY", "MALFORMED_FUNCTION_CALL", "MAX_TOKENS", "NEW_ONE"])
@pytest.mark.filterwarnings("ignore:NEW_ONE is not a valid FinishReason")
@pytest.mark.parametrize("content", [{}, {"content": {"role": "model"}}])
def test_silence_is_named_after_its_reason(reason, content):
    """An answer without content is an error with the finish reason as code (EVT-21)."""
    response = to_llm_response(answer(finishReason=reason, finishMessage="because", **content))
    assert (response.error_code, response.error_message) == (reason, "because")
    assert response.content is None
    assert type(response).from_json(response.to_json()) == response


@pytest.mark.parametrize("parts", [[], [{"text": ""}], [{"text": " \n"}], [THOUGHT]])
def test_a_stop_without_an_answer_is_an_error(parts):
    """STOP with empty, blank or thoughts-only content is an error that keeps it (FLW-5)."""
    response = to_llm_response(saying(*parts, finishReason="STOP"))
    assert response.error_code == "MODEL_RETURNED_NO_CONTENT"
    assert response.error_message
    assert bool(response.content) == bool(parts)


def test_without_a_finish_reason_nothing_is_wrong():
    """Without finish reason and without content nothing is set (FLW-5)."""
    response = to_llm_response(answer())
    assert response.content is None
    assert response.error_code is None


@pytest.mark.parametrize(
    "part",
    [
        {"functionCall": {"name": "f"}},
        {"inlineData": {"mimeType": "image/png", "data": "AAAA"}},
        {"executableCode": {"code": "1", "language": "PYTHON"}},
    ],
)
def test_parts_other_than_text_say_something(part):
    """A call, a file or code is an answer."""
    assert to_llm_response(saying(part, finishReason="STOP")).error_code is None


def test_a_blocked_prompt():
    """Without candidates the error is the reason the prompt was blocked for (EVT-21)."""
    feedback = {"promptFeedback": {"blockReason": "SAFETY", "blockReasonMessage": "unsafe"}}
    response = to_llm_response(types.GenerateContentResponse.model_validate(feedback))
    assert (response.error_code, response.error_message) == ("SAFETY", "unsafe")


def test_no_candidate_and_no_reason():
    """Without candidates and feedback the error is UNKNOWN_ERROR (17.1)."""
    assert to_llm_response(types.GenerateContentResponse()).error_code == "UNKNOWN_ERROR"


def test_signed_parts_are_not_joined():
    """A thought signature stays with exactly its part, even an empty one (FLW-30)."""
    signed = {"text": "b", "thoughtSignature": "c2ln"}
    last = {"text": "", "thoughtSignature": "ZW5k"}
    whole = merge([saying({"text": "a"}), saying(signed), saying({"text": "c"}), saying(last)])
    parts = whole.candidates[0].content.parts
    assert [(part.text, part.thought_signature) for part in parts] == [
        ("a", None),
        ("b", b"sig"),
        ("c", None),
        ("", b"end"),
    ]


def test_a_chunk_of_nothing_is_not_shown():
    """Chunks that only count tokens or end the stream give no partial response."""
    assert to_partial(saying({"text": ""}, finishReason="STOP")) is None
    assert to_partial(types.GenerateContentResponse()) is None


PARTS = st.one_of(
    st.builds(lambda text, thought: {"text": text, "thought": thought}, st.text(), st.booleans()),
    st.builds(lambda name: {"functionCall": {"name": name}}, st.sampled_from("fgh")),
)


@given(st.lists(PARTS), st.data())
def test_cutting_a_stream_elsewhere_changes_nothing(parts, data):
    """The whole has all parts in order, wherever the chunks were cut (FLW-73)."""
    cuts = sorted(data.draw(st.lists(st.integers(0, len(parts)), max_size=4)))
    edges = [0, *cuts, len(parts)]
    chunks = [saying(*parts[a:b]) for a, b in pairwise(edges)]
    whole = merge(chunks).candidates[0].content
    assert whole == merge([saying(*parts)]).candidates[0].content
    for thought in (True, False):
        texts = [p["text"] for p in parts if "text" in p and p["thought"] == thought]
        joined = [p.text for p in whole.parts if p.text and bool(p.thought) == thought]
        assert "".join(joined) == "".join(texts)
    calls = [p["functionCall"]["name"] for p in parts if "functionCall" in p]
    assert [p.function_call.name for p in whole.parts if p.function_call] == calls
