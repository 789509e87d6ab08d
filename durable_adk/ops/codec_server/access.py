"""Access control of the codec server."""

import hmac
import re
import secrets
from collections.abc import Iterable
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from durable_adk.errors import InvalidRequestError
from durable_adk.http.address import LOOPBACK

_TOKEN = re.compile(r"[A-Za-z0-9._~-]{16,256}")
_ORIGIN = re.compile(r"https?://[A-Za-z0-9.:\[\]-]+")


@dataclass(frozen=True, kw_only=True)
class Access:
    """The requirements for a request (S7): a token, and a host name of the server.

    Raises:
        InvalidRequestError: The token can be guessed or cannot be part of a URL, or an origin is
            malformed.
    """

    token: str = field(default_factory=lambda: secrets.token_urlsafe(32), repr=False)
    origins: tuple[str, ...] = ()
    """Origins of the pages that may read responses, such as ``http://localhost:8233``."""
    hosts: tuple[str, ...] = LOOPBACK
    """Permitted values of the ``Host`` header. After DNS rebinding, a page's requests carry the
    page's host name."""

    def __post_init__(self) -> None:
        """Check token, hosts and origins; error messages never contain the token."""
        if not _TOKEN.fullmatch(self.token):
            raise InvalidRequestError(
                "DURABLE_ADK_CODEC_TOKEN must be 16 to 256 of the characters A-Za-z0-9._~- ; "
                "if it is unset, a token is generated."
            )
        for host in self.hosts:
            if "*" in host and host != "*":
                raise InvalidRequestError(
                    f"The host name {host!r} must be a whole name, or * for any name."
                )
        for origin in self.origins:
            if not _ORIGIN.fullmatch(origin) or not urlsplit(origin).hostname:
                raise InvalidRequestError(
                    f"The origin {origin!r} must be just a scheme, a host and a port, such as "
                    "http://localhost:8233."
                )

    def admits(self, offered: Iterable[str]) -> bool:
        """Return whether one of the texts is the token; compares all, in constant time."""
        token = self.token.encode()
        same = [hmac.compare_digest(text.encode(), token) for text in offered]
        return any(same)
