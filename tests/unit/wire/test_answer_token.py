"""Tokens in URLs that answer one call."""

import base64
import json

import pytest

from durable_adk.errors import AuthenticationError
from durable_adk.wire.answer_token import AnswerToken

SECRET = "s" * 32
TOKEN = AnswerToken(
    app="app",
    user="u",
    session="s",
    invocation_id="i",
    call_id="c",
    message_id="m",
    expires=1000.0,
)


def test_a_token_names_its_call() -> None:
    """S28: as it was signed, until it expires."""
    signed = TOKEN.signed(SECRET)
    assert set(signed) <= set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.")
    assert AnswerToken.verified(signed, SECRET, now=1000.0) == TOKEN
    with pytest.raises(AuthenticationError, match="expired"):
        AnswerToken.verified(signed, SECRET, now=1000.1)


def test_any_other_token_is_refused() -> None:
    """S28: with another secret, another call, another spelling, or no form at all."""
    signed = TOKEN.signed(SECRET)
    body, mac = signed.split(".")
    other = json.dumps({**TOKEN.to_value(), "callId": "d"}).encode()
    forged = base64.urlsafe_b64encode(other).rstrip(b"=").decode()
    flipped = chr(ord(mac[0]) ^ 1) + mac[1:]
    for token in (
        *(TOKEN.signed("t" * 32), f"{forged}.{mac}", f"{body}.{flipped}", f"{body}.", body),
        *(f"{signed}=", f"{signed}.x", f" {signed}", signed[:-1], "", ".", "é.é", "x" * 5000),
    ):
        with pytest.raises(AuthenticationError, match="not one of this server"):
            AnswerToken.verified(token, SECRET, now=0)
