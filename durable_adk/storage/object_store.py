"""Object stores: S3, Google Cloud Storage, Azure."""

import asyncio
from collections.abc import (
    AsyncGenerator,
    AsyncIterable,
    Callable,
    Sequence,
)
from contextlib import suppress
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urlsplit

from durable_adk.errors import InvalidRequestError, StoreUnavailableError
from durable_adk.extras import Absent, require
from durable_adk.storage.objects import Objects, StoredObject, each

try:
    import obstore
    from obstore.exceptions import AlreadyExistsError, BaseError
    from obstore.store import from_url
except ImportError:
    if TYPE_CHECKING:
        raise
    obstore = from_url = AlreadyExistsError = BaseError = Absent

SCHEMES = ("s3", "s3a", "gs", "az", "azure", "abfs", "abfss", "adl")
CHUNK = 4 * 1024 * 1024
"""Bytes of a large object per read request."""
_PART = 8 * 1024 * 1024  # bytes per upload request; S3 accepts 10,000 of them: 78 GiB
_PARTS_CONCURRENCY = 3  # times the part size: the memory of an upload
_PROBE = "conditional-put"
_RETRY = {"max_retries": 5, "retry_timeout": timedelta(seconds=20)}
"""obstore's default of ten attempts takes three minutes, too long for an activity."""

B = TypeVar("B")


class ObjectStore(Objects):
    """A bucket, accessed through `obstore`, a library over Rust's `object_store`.

    Paths are relative to the URI.
    """

    def __init__(self, uri: str, **options: Any) -> None:
        """Configure the store, without any request to it.

        Args:
            uri: ``s3://bucket/prefix``, ``gs://bucket/prefix`` or ``az://container/prefix``.
            **options: Options for `obstore.store.from_url`. Their defaults come from the provider's
                environment variables, such as ``AWS_ACCESS_KEY_ID``.

        Raises:
            InvalidRequestError: The library is not installed, or it does not support the URI.
        """
        _require(uri)
        self.uri = uri.rstrip("/")
        self._checked = False
        options = {"retry_config": _RETRY, **options}
        try:
            self._store: Any = from_url(self.uri, **options)
        except (BaseError, ValueError, OSError) as error:
            raise InvalidRequestError(f"{uri} cannot be used: {_reason(error)}") from error

    async def check(self) -> None:
        """See `Objects`; one request per process, and two for the first that uses the store."""
        if self._checked:
            return
        if await self.create(_PROBE, b"") and await self.create(_PROBE, b""):
            raise InvalidRequestError(
                f"{self.uri}: the store ignores conditional puts (If-None-Match), so processes "
                "that share it would overwrite each other's versions. Use a store, or a version "
                "of it, that supports them."
            )
        self._checked = True

    async def create(self, path: str, data: bytes) -> bool:
        """See `Objects`."""
        try:
            await self._call(
                lambda: obstore.put(self._store, path, data, mode="create"),
                passing=AlreadyExistsError,
            )
        except AlreadyExistsError:
            return False
        return True

    async def put(self, path: str, content: bytes | AsyncIterable[bytes]) -> None:
        """See `Objects`; a large object is uploaded in parts.

        Parts of an aborted upload stay in the bucket, invisible, until its lifecycle rules remove
        them.
        """
        limits: Any = {"buffer_size": _PART, "max_concurrency": _PARTS_CONCURRENCY}
        writer = await self._call(lambda: obstore.open_writer(self._store, path, **limits))
        if isinstance(content, bytes):
            await self._call(partial(writer.write, content))
        else:
            async for chunk in content:
                await self._call(partial(writer.write, chunk))
        await self._call(writer.close)

    async def get(self, path: str) -> bytes | None:
        """See `Objects`."""
        with suppress(FileNotFoundError):
            return await self._call(
                lambda: bytes(obstore.get(self._store, path).bytes()), passing=FileNotFoundError
            )
        return None

    async def read(self, path: str, size: int) -> AsyncGenerator[bytes]:
        """See `Objects`; one request for each chunk: a slow reader occupies no connection."""
        for start in range(0, size, CHUNK):
            end = min(start + CHUNK, size)
            request = partial(obstore.get_range, self._store, path, start=start, end=end)
            try:
                chunk = bytes(await self._call(request, passing=FileNotFoundError))
            except FileNotFoundError:
                raise FileNotFoundError(f"{self.uri}/{path} has been deleted.") from None
            yield chunk

    async def list(self, prefix: str = "") -> list[StoredObject]:
        """See `Objects`."""
        listing: Any = obstore  # overloads refer to a library that is not installed
        found = await self._call(lambda: listing.list(self._store, prefix or None).collect())
        return [
            StoredObject(entry["path"], entry["last_modified"].timestamp(), entry["size"])
            for entry in found
        ]

    async def delete(self, paths: Sequence[str]) -> None:
        """See `Objects`."""
        await each(self._delete, paths)

    async def _delete(self, path: str) -> None:
        with suppress(FileNotFoundError):
            await self._call(lambda: obstore.delete(self._store, path), passing=FileNotFoundError)

    async def _call(self, work: Callable[[], B], *, passing: type[Exception] | tuple[()] = ()) -> B:
        """Call obstore in a thread; translate all errors but those of the class `passing`.

        obstore's own coroutines are not used: a process that exits soon after one is sometimes
        aborted, by a thread of the library that still calls Python.
        """
        try:
            return await asyncio.to_thread(work)
        except passing:
            raise
        except (BaseError, OSError) as error:
            raise StoreUnavailableError(
                f"The object store {self.uri} does not respond: {_reason(error)}"
            ) from error


def _require(uri: str) -> None:
    scheme = urlsplit(uri).scheme
    if scheme not in SCHEMES:
        known = ", ".join(f"{name}://" for name in (*SCHEMES, "file"))
        raise InvalidRequestError(
            f"{uri} is not the URI of a supported object store: use one of {known}."
        )
    require("objects")


def _reason(error: Exception) -> str:
    """Return the library's message, without the debug output that follows it."""
    return str(error).partition("\n\nDebug source")[0][:500]
