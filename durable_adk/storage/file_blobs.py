"""Blobs as files in a folder."""

import asyncio
import os
import secrets
import shutil
import time
from collections.abc import AsyncGenerator
from contextlib import suppress
from pathlib import Path

from durable_adk.storage.files import sync_folder, write_durably

_KEY_BYTES = 32


class FileBlobs:
    """`SharedBlobs` in a folder of one machine, or of a network file system.

    Each owner has its own subfolder. Only the user of the process can read it.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)

    def key(self) -> bytes:
        """See `SharedBlobs`."""
        path = self.folder / "key"
        with suppress(FileNotFoundError):
            return path.read_bytes()
        fresh = self.folder / f"key.{secrets.token_hex(8)}"
        write_durably(fresh, secrets.token_bytes(_KEY_BYTES))
        with suppress(FileExistsError):
            path.hardlink_to(fresh)  # fails if another process has created the key
        fresh.unlink()
        return path.read_bytes()

    async def put(self, name: str, data: bytes) -> None:
        """See `BlobStore`; an existing file counts as new for `expired`."""
        await asyncio.to_thread(self._put, name, data)

    async def get(self, name: str) -> bytes:
        """See `BlobStore`."""
        return await asyncio.to_thread(self._get, name)

    def _put(self, name: str, data: bytes) -> None:
        path = self.folder / name
        if path.exists():
            os.utime(path)
            os.utime(path.parent)
            return
        path.parent.mkdir(mode=0o700, exist_ok=True)
        fresh = path.with_suffix(f".{secrets.token_hex(8)}")
        try:
            write_durably(fresh, data)
            fresh.replace(path)  # atomic: readers see the whole file or none
        finally:
            fresh.unlink(missing_ok=True)
        sync_folder(path.parent)
        sync_folder(self.folder)

    def _get(self, name: str) -> bytes:
        try:
            return (self.folder / name).read_bytes()
        except FileNotFoundError:
            if not (self.folder / "key").exists():
                raise OSError(f"The folder {self.folder} does not exist.") from None
            raise KeyError(name) from None

    async def expired(self, older_than: float) -> list[str]:
        """See `SharedBlobs`."""
        return await asyncio.to_thread(self._expired, time.time() - older_than)

    async def of(self, owner: str) -> AsyncGenerator[bytes]:
        """See `SharedBlobs`."""
        for file in await asyncio.to_thread(self._files, owner):
            with suppress(FileNotFoundError):  # another sweep has deleted it
                yield await asyncio.to_thread(file.read_bytes)

    async def remove(self, owner: str) -> None:
        """See `SharedBlobs`."""
        await asyncio.to_thread(shutil.rmtree, self.folder / owner, ignore_errors=True)

    def _files(self, owner: str) -> list[Path]:
        folder = self.folder / owner
        return list(folder.iterdir()) if folder.is_dir() else []

    def _expired(self, limit: float) -> list[str]:
        folders = [folder for folder in self.folder.iterdir() if folder.is_dir()]
        return [folder.name for folder in folders if folder.stat().st_mtime < limit]
