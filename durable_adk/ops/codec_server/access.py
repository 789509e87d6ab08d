"""Who may use the codec server, and from where."""

import hmac
import ipaddress
import re
import secrets
from collections.abc import Iterable
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from durable_adk.errors import InvalidRequestError

LOOPBACK = ("localhost", "127.0.0.1", "[::1]")
"""Names of this machine that a request may call it by."""
_TOKEN = re.compile(r"[A-Za-z0-9._~-]{16,256}")
_ORIGIN = re.compile(r"https?://[A-Za-z0-9.:\[\]-]+")


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches an address."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


@dataclass(frozen=True, kw_only=True)
class Access:
    """What a request must show (S7): a token, and a name that the server is known by.

    Raises:
        InvalidRequestError: The token can be guessed or cannot be part of an address, or an
            origin is none.
    """

    token: str = field(default_factory=lambda: secrets.token_urlsafe(32), repr=False)
    origins: tuple[str, ...] = ()
    """Of the pages that may read answers, as a browser writes them: ``http://localhost:8233``."""
    hosts: tuple[str, ...] = LOOPBACK
    """What the ``Host`` header may name. A page whose name was bound to this machine's address
    (DNS rebinding) sends its own."""

    def __post_init__(self) -> None:
        """Check both; an error never shows the token."""
        if not _TOKEN.fullmatch(self.token):
            raise InvalidRequestError(
                "DURABLE_ADK_CODEC_TOKEN must be 16 to 256 of the characters A-Za-z0-9._~- ; "
                "without it a token is made."
            )
        for origin in self.origins:
            if not _ORIGIN.fullmatch(origin) or not urlsplit(origin).hostname:
                raise InvalidRequestError(
                    f"The origin {origin!r} must be a scheme, a host and a port, and no more, such "
                    "as http://localhost:8233."
                )

    def admits(self, offered: Iterable[str]) -> bool:
        """Whether one of the texts is the token; how long that takes tells nothing of it."""
        token = self.token.encode()
        same = [hmac.compare_digest(text.encode(), token) for text in offered]
        return any(same)
