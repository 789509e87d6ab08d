"""Answers as they are sent."""

from durable_adk.wire.messages import InvocationAnswer


def test_an_answer_has_no_field_that_it_does_not_need() -> None:
    """An earlier release refuses an answer with a field that it does not know."""
    sent = {"callId": "c", "confirmed": True}
    assert InvocationAnswer.parse(sent).to_value() == {**sent, "stateDelta": {}}
    assert InvocationAnswer(steers="e").to_value() == {"steers": "e", "stateDelta": {}}
    assert InvocationAnswer.parse({**sent, "confirmed": "yes"}).unclear
