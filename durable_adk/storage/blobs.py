"""Blob stores for payloads."""

import asyncio
import re
import secrets
import time
from collections.abc import AsyncGenerator
from concurrent.futures import ThreadPoolExecutor

from durable_adk.errors import StoreUnavailableError
from durable_adk.storage.objects import Objects

_KEY_BYTES = 32
_NAME = re.compile(r"([0-9a-f]{32})/[0-9a-f]{64}")


class Blobs:
    """Stores bytes by name, and a key, for all processes of one Temporal namespace.

    A name is ``<owner>/<sha256>``: 32 and 64 hexadecimal digits. It is derived from the content, so
    storing a blob is idempotent. Anyone who can read the store can read conversations. All calls
    raise StoreUnavailableError while it is unavailable.
    """

    def __init__(self, objects: Objects) -> None:
        self._objects = objects

    def key(self) -> bytes:
        """Return the secret that signs references, created by the first caller; blocks.

        It is stored beside the blobs, so anyone who can read it can read them too. It protects
        against readers of Temporal without access to the store.

        Raises:
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
        """Store a blob durably; an existing one counts as new for `expired`."""
        await self._objects.put(name, data)

    async def get(self, name: str) -> bytes:
        """Return a blob; if the key is missing too, the store is unavailable.

        Raises:
            KeyError: There is no such blob.
        """
        data = await self._objects.get(name)
        if data is not None:
            return data
        if await self._objects.get("key") is None:
            raise StoreUnavailableError(f"The object store {self._objects.uri} does not exist.")
        raise KeyError(name)

    async def expired(self, older_than: float) -> list[str]:
        """Return the owners, as in blob names, without a new blob for `older_than` seconds.

        Times are by the store's clock.
        """
        newest: dict[str, float] = {}
        for entry in await self._objects.list():
            if found := _NAME.fullmatch(entry.path):
                newest[found[1]] = max(entry.modified, newest.get(found[1], 0.0))
        limit = time.time() - older_than
        return [owner for owner, modified in newest.items() if modified < limit]

    async def of(self, owner: str) -> AsyncGenerator[bytes]:
        """Yield the blobs of an owner, in any order; another process may be deleting them."""
        for entry in await self._objects.list(owner):
            data = await self._objects.get(entry.path)
            if data is not None:  # otherwise another sweep has deleted it
                yield data

    async def remove(self, owner: str) -> None:
        """Delete all blobs of an owner."""
        await self._objects.delete([entry.path for entry in await self._objects.list(owner)])
