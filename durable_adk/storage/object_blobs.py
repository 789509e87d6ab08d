"""Blobs in an object store."""

import asyncio
import re
import secrets
import time
from collections.abc import AsyncGenerator, Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

from durable_adk.errors import StoreUnavailableError
from durable_adk.storage.object_store import ObjectStore

_KEY_BYTES = 32
_NAME = re.compile(r"([0-9a-f]{32})/[0-9a-f]{64}")


class ObjectBlobs:
    """`SharedBlobs` in a bucket, which any number of machines may share.

    Anyone who can read the bucket can read conversations.
    """

    def __init__(self, uri: str, **options: Any) -> None:
        """Name the bucket; see `ObjectStore`."""
        self._objects = ObjectStore(uri, **options)

    def key(self) -> bytes:
        """See `SharedBlobs`.

        Raises:
            StoreUnavailableError: The store is unavailable.
            InvalidRequestError: The store has no conditional puts, so there could be several keys.
        """
        with ThreadPoolExecutor(1) as thread:  # this thread may run an event loop
            return thread.submit(asyncio.run, self._key()).result()

    async def _key(self) -> bytes:
        await self._objects.check()
        key = await self._objects.get("key")
        if key is None:
            await self._objects.create("key", secrets.token_bytes(_KEY_BYTES))
            key = await self._objects.get("key")
        if key is None:
            raise StoreUnavailableError(f"The object store {self._objects.uri} loses its key.")
        return key

    async def put(self, name: str, data: bytes) -> None:
        """See `BlobStore`; an existing blob counts as new for `expired`."""
        with _unavailable_as_os_error():
            await self._objects.put(name, data)

    async def get(self, name: str) -> bytes:
        """See `BlobStore`; if the key is missing too, the bucket is unavailable."""
        with _unavailable_as_os_error():
            data = await self._objects.get(name)
            if data is not None:
                return data
            if await self._objects.get("key") is None:
                raise StoreUnavailableError(f"The object store {self._objects.uri} does not exist.")
        raise KeyError(name)

    async def expired(self, older_than: float) -> list[str]:
        """See `SharedBlobs`; times are those of the store's clock."""
        newest: dict[str, float] = {}
        for entry in await self._objects.list():
            if found := _NAME.fullmatch(entry.path):
                newest[found[1]] = max(entry.modified, newest.get(found[1], 0.0))
        limit = time.time() - older_than
        return [owner for owner, modified in newest.items() if modified < limit]

    async def of(self, owner: str) -> AsyncGenerator[bytes]:
        """See `SharedBlobs`."""
        for entry in await self._objects.list(owner):
            data = await self._objects.get(entry.path)
            if data is not None:  # else another sweep has deleted it
                yield data

    async def remove(self, owner: str) -> None:
        """See `SharedBlobs`."""
        await self._objects.delete([entry.path for entry in await self._objects.list(owner)])


@contextmanager
def _unavailable_as_os_error() -> Generator[None]:
    """Raise OSError, as `BlobStore` promises, if the store is unavailable."""
    try:
        yield
    except StoreUnavailableError as error:
        raise OSError(error.message) from error
