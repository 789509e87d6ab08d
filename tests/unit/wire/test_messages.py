"""Answers as they are sent."""

from typing import Any

import pytest
from google.genai import types

from durable_adk.conversation.client_requests import CONFIRMATION_REQUESTERS
from durable_adk.conversation.pending_calls import FINAL_RESPONSES
from durable_adk.conversation.sent_message import AS_SENT
from durable_adk.errors import InvalidRequestError
from durable_adk.json_values import MAX_PROBLEMS
from durable_adk.wire.messages import InvocationAnswer, InvocationRequest
from tests.support.malformed import wrong_enumerations


def test_an_answer_has_no_field_that_it_does_not_need() -> None:
    """A history holds many answers."""
    sent = {"callId": "c", "confirmed": True}
    assert InvocationAnswer.parse(sent).to_value() == {**sent, "stateDelta": {}}
    assert InvocationAnswer(steers="e").to_value() == {"steers": "e", "stateDelta": {}}


@pytest.mark.parametrize("confirmed", ["yes", "true", 1, 1.0, []])
def test_only_true_is_a_yes(confirmed: object) -> None:
    """I16: what might mean something else approves nothing."""
    with pytest.raises(InvalidRequestError, match=r"confirmed: .*boolean"):
        InvocationAnswer.parse({"callId": "c", "confirmed": confirmed})


@pytest.mark.parametrize(("place", "content"), list(wrong_enumerations(types.Content)))
def test_a_number_where_an_enumeration_belongs_is_malformed(place: str, content: Any) -> None:
    """A client of Temporal may send it: any other error would fail the workflow task for ever."""
    request = {"app": "a", "user": "u", "message": content}
    with pytest.raises(InvalidRequestError, match=rf"malformed: message\.{place}: "):
        InvocationRequest.parse(request)
    with pytest.raises(InvalidRequestError, match=rf"malformed: message\.{place}: "):
        InvocationAnswer.parse({"message": content})


def test_few_problems_are_told() -> None:
    """An error is no longer because more is wrong."""
    request = {"app": "a", "user": "u", "message": {"parts": [1] * 500}}
    with pytest.raises(InvalidRequestError) as refused:
        InvocationRequest.parse(request)
    assert refused.value.message.count("message.") == MAX_PROBLEMS


@pytest.mark.parametrize("key", [CONFIRMATION_REQUESTERS, FINAL_RESPONSES, AS_SENT, "adk_later"])
def test_a_sender_sets_no_metadata_of_the_runtime(key: str) -> None:
    """S3: a sender cannot make the pending calls of a message look answered."""
    raw: dict[str, Any] = {"app": "a", "user": "u", "message": "hi"}
    raw["run_config"] = {"custom_metadata": {"mine": 1, key: True}}
    with pytest.raises(InvalidRequestError, match=key):
        InvocationRequest.parse(raw)
