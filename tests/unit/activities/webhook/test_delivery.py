"""How a receiver's response is understood."""

from email.utils import formatdate

import pytest

from durable_adk.activities.webhook.delivery import MAX_RETRY_AFTER, MIN_RETRY_AFTER, _checked
from durable_adk.errors import WebhookError, WebhookRefusedError


@pytest.mark.parametrize(
    ("after", "seconds"),
    [
        (None, None),
        ("", None),
        ("soon", None),
        ("nan", None),
        ("0", MIN_RETRY_AFTER),
        ("-5", MIN_RETRY_AFTER),
        ("7", 7.0),
        ("1e9", MAX_RETRY_AFTER),
        ("inf", MAX_RETRY_AFTER),
        (formatdate(0, usegmt=True), MIN_RETRY_AFTER),
        (formatdate(4e9, usegmt=True), MAX_RETRY_AFTER),
    ],
)
@pytest.mark.parametrize("code", [408, 425, 429, 500, 503])
def test_a_receiver_says_when_to_try_again(code: int, after: str | None, seconds: float) -> None:
    """Within bounds; what is no time counts as no wish."""
    with pytest.raises(WebhookError, match=str(code)) as again:
        _checked(code, after)
    assert again.value.retry_after == seconds


def test_other_statuses_are_final() -> None:
    """Success or refusal."""
    assert [_checked(code, None) for code in (200, 202, 204)] == [200, 202, 204]
    for code in (301, 304, 400, 401, 404, 410, 422):
        with pytest.raises(WebhookRefusedError, match=str(code)):
            _checked(code, "1")
