"""The port between a model step and those who watch its text grow."""

import hashlib
from abc import ABC, abstractmethod
from contextlib import AbstractAsyncContextManager
from functools import lru_cache

from durable_adk.json_values import canonical
from durable_adk.partials.partial import PartialEvent
from durable_adk.partials.subscription import Subscription
from durable_adk.sessions.session import SessionKey

PREFIX = "durable_adk_partials"
"""How the names of all channels on a server begin."""


class PartialChannel(ABC):
    """Carries chunks to any number of viewers; it may lose any of them (design D8).

    The whole event that follows is committed and repairs every loss. So nothing here is worth
    waiting for or failing for, and nothing of it is in Temporal's history or in a store (DUR-8).
    """

    @abstractmethod
    def publish(self, partial: PartialEvent) -> None:
        """Give a chunk to whoever watches now; from any thread.

        Never blocks and never raises, whatever viewers do: a slow one loses chunks.
        """

    @abstractmethod
    def subscribe(
        self, key: SessionKey, invocation_id: str
    ) -> AbstractAsyncContextManager[Subscription]:
        """Watch an invocation; chunks published before are gone, if not still on their way.

        Never raises: where nothing can be received, the subscription stays empty.
        """


@lru_cache(maxsize=256)
def channel_name(key: SessionKey, invocation_id: str) -> str:
    """An invocation's channel on a server, whose name does not say whose it is.

    PostgreSQL's names have at most 63 bytes.
    """
    text = canonical([*key, invocation_id])
    return f"{PREFIX}_{hashlib.sha256(text.encode()).hexdigest()[:32]}"
