"""Objects by name, in the store that a uri names: S3, Google Cloud Storage, Azure or a folder."""

import asyncio
from collections.abc import (
    AsyncGenerator,
    AsyncIterable,
    Awaitable,
    Callable,
    Iterable,
    Sequence,
)
from contextlib import suppress
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar
from urllib.parse import urlsplit

from durable_adk.errors import InvalidRequestError, StoreUnavailableError
from durable_adk.extras import Absent, require

try:
    import obstore
    from obstore.exceptions import AlreadyExistsError, BaseError
    from obstore.store import from_url
except ImportError:
    if TYPE_CHECKING:
        raise
    obstore = from_url = AlreadyExistsError = BaseError = Absent

SCHEMES = ("s3", "s3a", "gs", "az", "azure", "abfs", "abfss", "adl", "file")
CHUNK = 4 * 1024 * 1024
"""Bytes of a large object that are read by one request."""
_PART = 8 * 1024 * 1024  # bytes that are put by one request; S3 takes 10,000 of them: 78 GiB
_PARTS_AT_ONCE = 3  # with their size, what bounds the memory of an upload
_AT_ONCE = 16  # small requests
_PROBE = "conditional-put"
_RETRY = {"max_retries": 5, "retry_timeout": timedelta(seconds=20)}
"""The library's own ten attempts take three minutes; an activity has to answer sooner."""

A = TypeVar("A")
B = TypeVar("B")


class Stored(NamedTuple):
    """What a listing says of an object."""

    path: str
    modified: float
    """Seconds since the epoch, by the store's clock."""


async def each(work: Callable[[A], Awaitable[B]], items: Iterable[A]) -> list[B]:
    """The results for all items, in their order; some are asked for at once."""
    gate = asyncio.Semaphore(_AT_ONCE)

    async def one(item: A) -> B:
        async with gate:
            return await work(item)

    return await asyncio.gather(*map(one, items))


def is_uri(location: Path | str) -> bool:
    """Whether a setting names an object store; else it is a folder."""
    return "://" in str(location)


def place(location: Path | str) -> Path | str:
    """A setting as it means the same in every process: a uri, or an absolute folder."""
    return str(location) if is_uri(location) else Path(location).expanduser().absolute()


class ObjectStore:
    """What is used here of `obstore`, a library over Rust's `object_store`.

    Paths are relative to the uri's. The store holds no event loop: any thread may use it. Every
    call raises StoreUnavailableError when the store does not answer, or refuses to.
    """

    def __init__(self, uri: str, **options: Any) -> None:
        """Name the store; nothing is asked of it yet.

        Args:
            uri: ``s3://bucket/prefix``, ``gs://bucket/prefix``, ``az://container/prefix`` or
                ``file:///folder``.
            **options: For `obstore.store.from_url`. What is not here comes from the provider's
                environment variables, such as ``AWS_ACCESS_KEY_ID``.

        Raises:
            InvalidRequestError: The library is not installed, or it cannot use the uri.
        """
        _require(uri)
        self.uri = uri.rstrip("/")
        self._checked = False
        if urlsplit(uri).scheme == "file":
            options = {"mkdir": True, **options}
        else:
            options = {"retry_config": _RETRY, **options}
        try:
            self._store: Any = from_url(self.uri, **options)
        except (BaseError, ValueError, OSError) as error:
            raise InvalidRequestError(f"{uri} cannot be used: {_reason(error)}") from error

    async def check(self) -> None:
        """Refuse a store that overwrites what it was asked to create: versions would be lost.

        Once a process it costs a request, or two if it is the first that comes to the store.

        Raises:
            InvalidRequestError: It does.
        """
        if self._checked:
            return
        if await self.create(_PROBE, b"") and await self.create(_PROBE, b""):
            raise InvalidRequestError(
                f"{self.uri}: the store ignores conditional puts (If-None-Match), so processes "
                "that share it would overwrite each other's versions. Use a store, or a release "
                "of it, that has them."
            )
        self._checked = True

    async def create(self, path: str, data: bytes) -> bool:
        """Put an object where there is none, whole or not at all; False if there is one.

        False may also be said to the one who made it: a request whose answer was lost is sent
        again. Whoever has to know looks at what is there.
        """
        try:
            await self._ask(
                lambda: obstore.put(self._store, path, data, mode="create"),
                passing=AlreadyExistsError,
            )
        except AlreadyExistsError:
            return False
        return True

    async def put(self, path: str, content: bytes | AsyncIterable[bytes]) -> None:
        """Put an object, or replace it, whole or not at all; a large one goes up in parts.

        Parts of one that was cut off stay in a bucket, unseen, until its rules remove them.

        Raises:
            Exception: What `content` raises; then nothing is stored.
        """
        limits: Any = {"buffer_size": _PART, "max_concurrency": _PARTS_AT_ONCE}
        writer = await self._ask(lambda: obstore.open_writer(self._store, path, **limits))
        if isinstance(content, bytes):
            await self._ask(partial(writer.write, content))
        else:
            async for chunk in content:
                await self._ask(partial(writer.write, chunk))
        await self._ask(writer.close)

    async def get(self, path: str) -> bytes | None:
        """An object's content; None if there is none, or no bucket."""
        with suppress(FileNotFoundError):
            return await self._ask(
                lambda: bytes(obstore.get(self._store, path).bytes()), passing=FileNotFoundError
            )
        return None

    async def read(self, path: str, size: int) -> AsyncGenerator[bytes]:
        """An object's content in chunks, each a request: a slow reader holds no connection.

        Raises:
            FileNotFoundError: It has been deleted meanwhile.
        """
        for start in range(0, size, CHUNK):
            end = min(start + CHUNK, size)
            ask = partial(obstore.get_range, self._store, path, start=start, end=end)
            try:
                chunk = bytes(await self._ask(ask, passing=FileNotFoundError))
            except FileNotFoundError:
                raise FileNotFoundError(f"{self.uri}/{path} has been deleted.") from None
            yield chunk

    async def list(self, prefix: str = "") -> list[Stored]:
        """All objects below a folder."""
        listing: Any = obstore  # its overloads name a library that is not installed
        found = await self._ask(lambda: listing.list(self._store, prefix or None).collect())
        return [Stored(entry["path"], entry["last_modified"].timestamp()) for entry in found]

    async def delete(self, paths: Sequence[str]) -> None:
        """Delete objects; missing is no error."""
        await each(self._delete, paths)

    async def _delete(self, path: str) -> None:
        with suppress(FileNotFoundError):
            await self._ask(lambda: obstore.delete(self._store, path), passing=FileNotFoundError)

    async def _ask(self, work: Callable[[], B], *, passing: type[Exception] | tuple[()] = ()) -> B:
        """Do something in a thread; only errors of the class `passing` are not the store's.

        The library's own coroutines would do, but for their end: a process that ends soon after
        one is aborted, now and then, by a thread of the library that still reports to Python.
        """
        try:
            return await asyncio.to_thread(work)
        except passing:
            raise
        except (BaseError, OSError) as error:
            raise StoreUnavailableError(
                f"The object store {self.uri} does not answer: {_reason(error)}"
            ) from error


def _require(uri: str) -> None:
    scheme = urlsplit(uri).scheme
    if scheme not in SCHEMES:
        known = ", ".join(f"{name}://" for name in SCHEMES)
        raise InvalidRequestError(f"{uri} names no object store that is known: use one of {known}.")
    require("objects")


def _reason(error: Exception) -> str:
    """What the library says, without the inner values that it prints behind it."""
    return str(error).partition("\n\nDebug source")[0][:500]
