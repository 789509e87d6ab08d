"""The campaign's model."""

import pytest

from campaign.model_stub import is_paired

CALL = {"role": "model", "parts": [{"functionCall": {"name": "charge"}}]}
RESPONSE = {"role": "user", "parts": [{"functionResponse": {"name": "charge"}}]}
TEXT = {"role": "user", "parts": [{"text": "do x"}]}


@pytest.mark.parametrize(
    ("contents", "paired"),
    [
        ([TEXT], True),
        ([TEXT, CALL, RESPONSE], True),
        ([TEXT, CALL], False),
        ([TEXT, RESPONSE], False),
        ([TEXT, CALL, TEXT, RESPONSE], False),
        ([TEXT, CALL, RESPONSE, RESPONSE], False),
    ],
)
def test_a_prompt_is_paired_when_each_call_is_answered_next(contents: list, paired: bool) -> None:
    """I9: providers refuse a prompt whose calls are not answered by the content after them."""
    assert is_paired(contents) is paired
