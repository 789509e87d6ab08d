"""Tokens that let another system answer one pending call; they authenticate no user (S28)."""

import base64
import binascii
import hashlib
import hmac
from typing import Self

from pydantic import ValidationError

from durable_adk.errors import AuthenticationError
from durable_adk.sessions.session import NamesSession

LIFETIME = 7 * 86400.0
"""Seconds from the pause for which a token is accepted."""
MAX_LENGTH = 4_000
_PURPOSE = b"durable-adk answer token 1"


class AnswerToken(NamesSession):
    """One pending call, and until when it may be answered.

    It is signed but not encrypted: its holder may answer the call, so may know which call it is. It
    is used up when the call is answered.
    """

    invocation_id: str
    call_id: str
    message_id: str
    """Id of the webhook that contained it."""
    expires: float
    """In seconds since the epoch."""

    def signed(self, secret: str) -> str:
        """Return the token as the last part of a URL's path."""
        body = self.to_json().encode()
        return f"{_text(body)}.{_text(_mac(secret, body))}"

    @classmethod
    def verified(cls, token: str, secret: str, *, now: float) -> Self:
        """Read a token.

        Raises:
            AuthenticationError: It was not signed with the secret, or has expired.
        """
        body_text, _, mac_text = token.partition(".")
        try:
            body, mac = _bytes(body_text), _bytes(mac_text)
            if len(token) > MAX_LENGTH or not hmac.compare_digest(_mac(secret, body), mac):
                raise AuthenticationError(_UNKNOWN)
            found = cls.from_json(body)
        except (binascii.Error, UnicodeError, ValidationError):
            raise AuthenticationError(_UNKNOWN) from None
        if now > found.expires:
            raise AuthenticationError("The token of this URL has expired.")
        return found


_UNKNOWN = "The token of this URL is not one of this server."


def _mac(secret: str, body: bytes) -> bytes:
    key = hashlib.sha256(_PURPOSE + secret.encode()).digest()
    return hmac.digest(key, body, "sha256")


def _text(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def _bytes(text: str) -> bytes:
    data = base64.urlsafe_b64decode(text.encode("ascii") + b"=" * (-len(text) % 4))
    if _text(data) != text:  # other spellings of the same bytes
        raise binascii.Error
    return data
