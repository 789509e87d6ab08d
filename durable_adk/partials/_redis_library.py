"""What is used here of the `redis` library."""

from typing import TYPE_CHECKING, Any

from durable_adk.errors import InvalidRequestError
from durable_adk.extras import Absent, require

try:
    from redis.asyncio import Redis
    from redis.asyncio.retry import Retry
    from redis.backoff import NoBackoff
except ImportError:
    if TYPE_CHECKING:
        raise
    Redis = Retry = NoBackoff = Absent

SCHEMES = ("redis://", "rediss://")
_PATIENCE = 5.0
"""Seconds for a connection, and for an answer."""

__all__ = ["connected"]


def connected(url: str) -> Any:
    """A client that has not connected yet, and gives up at once what fails.

    Typed as Any: the library's commands are sync or async by a union of types.

    Raises:
        InvalidRequestError: The library is not installed, or the URL cannot be used. The message
            quotes nothing of it, as there may be a password in it.
    """
    require("redis")
    try:
        if url.startswith(SCHEMES):
            return Redis.from_url(  # pyright: ignore[reportUnknownMemberType]: its keywords have no types
                url,
                socket_connect_timeout=_PATIENCE,
                socket_timeout=_PATIENCE,
                socket_keepalive=True,
                health_check_interval=0,
                retry=Retry(NoBackoff(), 0),
            )
    except (ValueError, TypeError, AttributeError):
        pass
    raise InvalidRequestError(
        "The place of the partial events must be redis://host:port/0, or rediss:// for TLS, with "
        "user:password@ before the host if need be."
    )
