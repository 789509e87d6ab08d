"""The interface of object stores: a bucket, a folder, or memory."""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, AsyncIterable, Awaitable, Callable, Iterable, Sequence
from typing import NamedTuple, TypeVar

_CONCURRENCY = 16  # small requests

A = TypeVar("A")
B = TypeVar("B")


class StoredObject(NamedTuple):
    """An entry in a listing."""

    path: str
    modified: float
    """Seconds since the epoch, by the store's clock."""
    size: int
    """Bytes."""


class Objects(ABC):
    """Stores bytes by path, for any number of processes; bound to no thread or event loop.

    Paths are relative to the store, and made of letters, digits and few signs. Every call raises
    StoreUnavailableError if the store does not respond, or denies access. Data of a completed call
    survives a crash of the machine, if the store does.
    """

    uri: str
    """The store's location, without a slash at its end."""

    async def check(self) -> None:  # noqa: B027  # optional
        """Reject a store in which `create` replaces objects: versions would be lost.

        Raises:
            InvalidRequestError: The store does so.
        """

    @abstractmethod
    async def create(self, path: str, data: bytes) -> bool:
        """Create an object atomically; return False if there is one already.

        The creator may get False too, because a request is repeated if its response was lost. A
        caller that must know compares the stored object.
        """

    @abstractmethod
    async def put(self, path: str, content: bytes | AsyncIterable[bytes]) -> None:
        """Create or replace an object atomically; few chunks are in memory at a time.

        Raises:
            Exception: Any exception of `content`; then nothing is stored.
        """

    @abstractmethod
    async def get(self, path: str) -> bytes | None:
        """Return an object's content; None if the object does not exist."""

    @abstractmethod
    def read(self, path: str, size: int) -> AsyncGenerator[bytes]:
        """Yield the content of an object of `size` bytes, in chunks.

        Raises:
            FileNotFoundError: The object has been deleted in the meantime.
        """

    @abstractmethod
    async def list(self, prefix: str = "") -> list[StoredObject]:
        """Return all objects below a folder.

        If the list lacks an object that another process deleted meanwhile, it has all objects that
        this process had created earlier in the same folder.
        """

    @abstractmethod
    async def delete(self, paths: Sequence[str]) -> None:
        """Delete objects; missing ones are ignored."""


async def each(work: Callable[[A], Awaitable[B]], items: Iterable[A]) -> list[B]:
    """Return the results for all items, in order; computed with limited concurrency."""
    gate = asyncio.Semaphore(_CONCURRENCY)

    async def one(item: A) -> B:
        async with gate:
            return await work(item)

    return await asyncio.gather(*map(one, items))
