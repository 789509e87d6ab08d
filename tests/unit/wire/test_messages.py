"""Answers as they are sent."""

import pytest

from durable_adk.errors import InvalidRequestError
from durable_adk.wire.messages import InvocationAnswer


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
