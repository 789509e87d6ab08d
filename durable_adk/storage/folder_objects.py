"""Objects as files in a folder.

An object is written to a file in `.new`, which no listing includes, and flushed to the disk. Then
it gets its name: by a hard link, which fails if the name exists, or by a rename, which replaces.
Both are atomic, also among processes and on NFS. The files of killed processes stay in `.new` until
a later write.
"""

import asyncio
import errno
import os
import stat
import time
from collections.abc import AsyncGenerator, AsyncIterable, Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import BinaryIO, TypeVar
from uuid import uuid4

from durable_adk.errors import StoreUnavailableError
from durable_adk.storage.files import sync_folder
from durable_adk.storage.objects import Objects, StoredObject

T = TypeVar("T")

LEFT_BEHIND = 3600.0
"""Age in seconds after which no process is still writing a file in `.new`."""
_NEW = ".new"
_CHUNK = 1024 * 1024  # bytes per read
_TRIES = 100
"""Maximum attempts to name a file; each failure means that another process removed its folder."""


class FolderObjects(Objects):
    """Objects in a folder, which any number of processes may share.

    Does not use obstore, whose local store never calls fsync, so that a completed write could be
    lost. The file system must support hard links and atomic renames, as local ones and NFS do.

    Args:
        root: The folder. Nothing outside of it is read or written.
        private: Whether only this user may read it. If so, the folder is only created here:
            otherwise an unmounted file system would look like an empty store. Without it, the first
            write creates the folder.
    """

    def __init__(self, root: Path, *, private: bool = False) -> None:
        self.uri = root.absolute().as_uri()
        self._root = root
        self._private = private
        if private:
            root.mkdir(mode=0o700, parents=True, exist_ok=True)

    async def create(self, path: str, data: bytes) -> bool:
        """See `Objects`."""
        return await self._call(lambda: self._create(path, data))

    async def put(self, path: str, content: bytes | AsyncIterable[bytes]) -> None:
        """See `Objects`."""
        file = await self._call(self._begin)
        try:
            async for chunk in _chunks(content) if isinstance(content, bytes) else content:
                await self._call(partial(file.write, chunk))
            await self._call(lambda: self._publish(file, path, os.replace))
        finally:
            await self._call(lambda: _discard(file))

    async def get(self, path: str) -> bytes | None:
        """See `Objects`."""
        return await self._call(lambda: self._content(path))

    async def read(self, path: str, size: int) -> AsyncGenerator[bytes]:
        """See `Objects`."""
        del size
        try:
            file = await self._call(lambda: self._open(path), passing=FileNotFoundError)
        except FileNotFoundError:
            raise FileNotFoundError(f"{self.uri}/{path} has been deleted.") from None
        try:
            while chunk := await self._call(lambda: file.read(_CHUNK)):
                yield chunk
        finally:
            file.close()

    async def list(self, prefix: str = "") -> list[StoredObject]:
        """See `Objects`."""
        return await self._call(lambda: [*self._walk(self._root / prefix)])

    async def delete(self, paths: Sequence[str]) -> None:
        """See `Objects`; also removes emptied folders, because their names may be ids."""
        await self._call(lambda: self._delete(paths))

    def _open(self, path: str) -> BinaryIO:
        # In a private folder no link leads to a file of somebody else.
        flags = os.O_NOFOLLOW if self._private else 0
        return open(self._root / path, "rb", opener=lambda name, mode: os.open(name, mode | flags))

    def _content(self, path: str) -> bytes | None:
        with suppress(FileNotFoundError), self._open(path) as file:
            return file.read()
        return None

    def _create(self, path: str, data: bytes) -> bool:
        file = self._begin()
        try:
            file.write(data)
            self._publish(file, path, os.link)
        except FileExistsError:
            return False
        finally:
            _discard(file)
        return True

    def _begin(self) -> BinaryIO:
        """Open a new file in `.new`, and remove files that killed processes have left there."""
        drafts = self._root / _NEW
        self._make(drafts)
        for draft in drafts.iterdir():
            with suppress(FileNotFoundError):
                if time.time() - draft.stat().st_mtime > LEFT_BEHIND:
                    draft.unlink()
        mode = 0o600 if self._private else 0o666
        return open(drafts / uuid4().hex, "xb", opener=partial(os.open, mode=mode))

    def _publish(self, file: BinaryIO, path: str, name_it: Callable[[str, Path], None]) -> None:
        """Name a written file once its content is on the disk; return when its name is too."""
        file.flush()
        os.fsync(file.fileno())
        target = self._root / path
        for tries in range(1, _TRIES + 1):
            try:
                self._make(target.parent)
                name_it(file.name, target)
            except FileNotFoundError:
                if tries == _TRIES:
                    raise
            else:
                break
        with suppress(FileNotFoundError):  # deleted by now, with its folder
            sync_folder(target.parent)

    def _make(self, folder: Path) -> None:
        """Create a folder and its parents durably."""
        if folder.is_dir():
            return
        if self._private and folder == self._root:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(folder))
        self._make(folder.parent)
        folder.mkdir(mode=0o700 if self._private else 0o777, exist_ok=True)
        sync_folder(folder.parent)

    def _walk(self, folder: Path) -> Iterator[StoredObject]:
        for path, found in self._entries(folder).items():
            if stat.S_ISDIR(found.st_mode):
                yield from self._walk(path)
            else:
                name = str(path.relative_to(self._root))
                yield StoredObject(name, found.st_mtime, found.st_size)

    def _entries(self, folder: Path) -> dict[Path, os.stat_result]:
        """Return a folder's entries, complete as of some moment except for newer entries.

        The system returns a large folder in pieces. If one piece were from before a deletion and
        another from after it, a second read would lack an entry of the first. New entries do not
        matter, so the reads end even while other processes write.
        """
        found: dict[Path, os.stat_result] | None = None
        while True:
            try:
                again = {path: path.stat() for path in folder.iterdir() if path.name != _NEW}
            except FileNotFoundError:
                if folder.is_dir():
                    continue  # a file in it was deleted
                if self._private and folder == self._root:
                    raise
                return {}
            if found is not None and found.keys() <= again.keys():
                return again
            found = again

    def _delete(self, paths: Sequence[str]) -> None:
        for path in paths:
            (self._root / path).unlink(missing_ok=True)
        for folder in {(self._root / path).parent for path in paths}:
            self._prune(folder)

    def _prune(self, folder: Path) -> None:
        """Remove a folder and its parents if they are empty, durably."""
        while folder != self._root:
            try:
                folder.rmdir()
            except FileNotFoundError:
                pass  # another process has removed it
            except OSError:
                break  # it is not empty
            folder = folder.parent
        with suppress(FileNotFoundError):
            sync_folder(folder)

    async def _call(self, work: Callable[[], T], *, passing: type[Exception] | tuple[()] = ()) -> T:
        """Call in a thread, because file access blocks; translate all errors but `passing`."""
        try:
            return await asyncio.to_thread(work)
        except passing:
            raise
        except OSError as error:  # a full disk or a missing mount: worth a retry
            reason = error.strerror or error
            raise StoreUnavailableError(f"The folder {self._root} is unavailable: {reason}.") from (
                error
            )


async def _chunks(data: bytes) -> AsyncGenerator[bytes]:
    yield data


def _discard(file: BinaryIO) -> None:
    file.close()
    Path(file.name).unlink(missing_ok=True)
