"""Artifacts in a folder."""

import asyncio
import os
from collections.abc import AsyncGenerator, AsyncIterable, Callable, Iterable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TypeVar

from durable_adk.artifacts._files import FileVersions
from durable_adk.artifacts._key import ArtifactKey, ArtifactScope, scope_of
from durable_adk.artifacts._record import Record
from durable_adk.artifacts._stored import Draft, OpenedVersion, StoredArtifactService
from durable_adk.artifacts.base_artifact_service import ArtifactVersion
from durable_adk.errors import StoreUnavailableError

T = TypeVar("T")
_CHUNK = 1024 * 1024  # bytes per read


class FileArtifactService(StoredArtifactService):
    """Artifacts in files under a folder, which any number of processes may share.

    A completed save survives a crash of the machine; an interrupted one leaves nothing visible. The
    file system must rename atomically, as local ones and NFS do. The folder does not go through
    `obstore`, whose local store never calls fsync, so that a completed save could be lost.
    """

    def __init__(self, root_dir: Path | str) -> None:
        """Configure the folder, which the first save creates.

        Args:
            root_dir: The folder. Nothing outside of it is read or written, because names are hashed
                (S4).
        """
        self._files = FileVersions(Path(root_dir).absolute())
        super().__init__(_ThreadedStore(self._files))

    async def delete_user(
        self, *, app_name: str, user_id: str, session_ids: Iterable[str], dry_run: bool = False
    ) -> int:
        """See `BaseArtifactService.delete_user`; a user's artifacts are in one folder."""
        del session_ids
        scope = scope_of(app_name, user_id, None)
        return await _in_thread(lambda: self._files.remove_user(scope, dry_run=dry_run))


class _ThreadedStore:
    """Calls `FileVersions` in threads, because file access blocks."""

    def __init__(self, files: FileVersions) -> None:
        self._files = files

    async def add(self, key: ArtifactKey, draft: Draft) -> int:
        if draft.chunks is None:
            return await _in_thread(lambda: self._files.add(key, draft))
        spool = await _in_thread(self._files.spool)
        try:
            await _fill(spool, draft.chunks)
            return await _in_thread(lambda: self._files.add(key, draft, spool))
        finally:
            await _in_thread(lambda: spool.unlink(missing_ok=True))

    async def numbers(self, key: ArtifactKey) -> list[int]:
        return await _in_thread(lambda: self._files.numbers(key))

    async def open(self, key: ArtifactKey, version: int) -> OpenedVersion | None:
        found = await _in_thread(lambda: self._opened(key, version))
        if found is None:
            return None
        record, path, size = found
        return OpenedVersion(
            part=record.part, content=record.content, size=size, read=lambda: _chunks(path)
        )

    def _opened(self, key: ArtifactKey, version: int) -> tuple[Record, Path, int] | None:
        with suppress(FileNotFoundError):  # deleted in between
            found = self._files.open(key, version)
            return found and (*found, found[1].stat().st_size)
        return None

    async def describe(self, key: ArtifactKey, versions: Iterable[int]) -> list[ArtifactVersion]:
        return await _in_thread(lambda: self._files.describe(key, versions))

    async def names(self, scope: ArtifactScope) -> list[str]:
        return await _in_thread(lambda: self._files.names(scope))

    async def remove(self, key: ArtifactKey) -> None:
        await _in_thread(lambda: self._files.remove(key))


async def _fill(path: Path, chunks: AsyncIterable[bytes]) -> None:
    """Write chunks into a new file durably."""
    file = await _in_thread(lambda: path.open("xb"))
    try:
        async for chunk in chunks:
            await _in_thread(partial(file.write, chunk))
        await _in_thread(file.flush)
        await _in_thread(lambda: os.fsync(file.fileno()))
    finally:
        file.close()


async def _chunks(path: Path) -> AsyncGenerator[bytes]:
    file = await _in_thread(lambda: path.open("rb"))
    try:
        while chunk := await _in_thread(lambda: file.read(_CHUNK)):
            yield chunk
    finally:
        file.close()


async def _in_thread(work: Callable[[], T]) -> T:
    try:
        return await asyncio.to_thread(work)
    except FileNotFoundError:  # content that was deleted while it was read
        raise
    except OSError as error:  # a full disk or a missing mount: worth a retry
        reason = error.strerror or error
        raise StoreUnavailableError(f"The artifact folder is unavailable: {reason}.") from error
