"""Who is let in."""

import pytest

from durable_adk.errors import InvalidRequestError
from durable_adk.http.address import is_loopback
from durable_adk.ops.codec_server import Access


def test_a_token_is_made_that_nobody_guesses() -> None:
    """S7: without a configured one there is a new one each time, and it is not shown by chance."""
    one, two = Access(), Access()
    assert one.token != two.token
    assert len(one.token) >= 32
    assert one.token not in repr(one)


@pytest.mark.parametrize(
    "token", ["", "short", "x" * 15, "with space 0123456", "with/slash0123456"]
)
def test_a_weak_token_is_refused_and_not_quoted(token: str) -> None:
    """S7: also one that could not be a part of an address."""
    with pytest.raises(InvalidRequestError, match="DURABLE_ADK_CODEC_TOKEN") as caught:
        Access(token=token)
    assert not token or token not in str(caught.value)


@pytest.mark.parametrize(
    "origin", ["*", "null", "localhost:8233", "http://localhost:8233/", "http://a b", "http://:1"]
)
def test_what_is_no_origin_is_refused(origin: str) -> None:
    """S7: least of all everybody's."""
    with pytest.raises(InvalidRequestError, match="origin"):
        Access(origins=(origin,))


def test_a_part_of_a_host_name_is_refused() -> None:
    """S7: it would match no name."""
    with pytest.raises(InvalidRequestError, match="whole name"):
        Access(hosts=("*.example.com",))


def test_only_the_token_is_admitted() -> None:
    """S7: wherever it is offered."""
    access = Access(token="a-token-of-sixteen")  # noqa: S106 - of this test only
    assert access.admits(["decode", "a-token-of-sixteen"])
    for offered in ([], [""], ["a-token-of-sixtee"], ["A-TOKEN-OF-SIXTEEN"], ["\u20ac"]):
        assert not access.admits(offered)


def test_loopback_is_what_only_this_machine_reaches() -> None:
    """S7: a name other than localhost may lead anywhere."""
    assert all(map(is_loopback, ("127.0.0.1", "127.8.8.8", "::1", "localhost")))
    assert not any(map(is_loopback, ("0.0.0.0", "::", "10.0.0.1", "example.com", "")))  # noqa: S104 - refused
