"""The interface between a model step and the viewers that stream its text."""

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Iterable
from contextlib import AbstractAsyncContextManager
from functools import lru_cache

from durable_adk.json_values import canonical
from durable_adk.partials.partial import PartialEvent
from durable_adk.partials.subscription import Subscription
from durable_adk.sessions.session import SessionKey

PREFIX = "durable_adk_partials"
"""Prefix of all channel names on a server."""
REPLAYS = f"{PREFIX}_replays"
"""Channel on a server on which new viewers announce themselves to publishers."""


class PartialChannel(ABC):
    """Delivers chunks to any number of viewers, on a best-effort basis (D8).

    The complete event that follows is committed and replaces every lost chunk. A channel therefore
    never blocks or fails a run, and chunks are written neither to Temporal's history nor to a store
    (DUR-8).
    """

    @abstractmethod
    def publish(
        self, partial: PartialEvent, earlier: Iterable[PartialEvent] = (), *, again: bool = False
    ) -> None:
        """Send a chunk to all current viewers; callable from any thread.

        Never blocks and never raises. A slow viewer loses chunks.

        Args:
            partial: The chunk.
            earlier: The chunks of the same attempt before it, for viewers that joined later;
                iterated for each such viewer. A viewer may get chunks repeatedly.
            again: Whether the chunk was published before, and is only for new viewers.
        """

    @abstractmethod
    def subscribe(
        self, key: SessionKey, invocation_id: str
    ) -> AbstractAsyncContextManager[Subscription]:
        """Subscribe to an invocation's chunks.

        All chunks so far of a response in progress are published again, as far as the step has kept
        them. Never raises: if nothing can be received, the subscription stays empty.
        """


@lru_cache(maxsize=256)
def channel_name(key: SessionKey, invocation_id: str) -> str:
    """Return the name of an invocation's channel on a server.

    The name contains a hash, so that it does not reveal the user or session. PostgreSQL limits
    names to 63 bytes.
    """
    text = canonical([*key, invocation_id])
    return f"{PREFIX}_{hashlib.sha256(text.encode()).hexdigest()[:32]}"
