"""Artifacts in a folder."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from google.genai import types

from durable_adk.artifacts._files import FileVersions
from durable_adk.artifacts._key import ArtifactKey, Scope
from durable_adk.artifacts._stored import Draft, StoredArtifactService
from durable_adk.artifacts.base_artifact_service import ArtifactVersion
from durable_adk.errors import StoreUnavailableError

T = TypeVar("T")


class FileArtifactService(StoredArtifactService):
    """Artifacts in files under a folder, which any number of processes may share.

    A save that has returned survives a crash of the machine; one that was cut off leaves nothing
    that anybody sees. The folder must be on a file system that renames atomically, as local ones
    and NFS do.
    """

    def __init__(self, root_dir: Path | str) -> None:
        """Name the folder; it is made at the first save.

        Args:
            root_dir: The folder. Nothing outside of it is read or written, whatever names are
                used: a name becomes a hash (reliability S4).
        """
        super().__init__(_ThreadedStore(FileVersions(Path(root_dir).absolute())))


class _ThreadedStore:
    """Each call is one trip to a thread, for files block."""

    def __init__(self, files: FileVersions) -> None:
        self._files = files

    async def add(self, key: ArtifactKey, draft: Draft) -> int:
        return await _in_thread(lambda: self._files.add(key, draft))

    async def numbers(self, key: ArtifactKey) -> list[int]:
        return await _in_thread(lambda: self._files.numbers(key))

    async def part(self, key: ArtifactKey, version: int) -> types.Part | None:
        return await _in_thread(lambda: self._files.part(key, version))

    async def describe(self, key: ArtifactKey, version: int) -> ArtifactVersion | None:
        return await _in_thread(lambda: self._files.describe(key, version))

    async def names(self, scope: Scope) -> list[str]:
        return await _in_thread(lambda: self._files.names(scope))

    async def remove(self, key: ArtifactKey) -> None:
        await _in_thread(lambda: self._files.remove(key))


async def _in_thread(work: Callable[[], T]) -> T:
    try:
        return await asyncio.to_thread(work)
    except OSError as error:  # a full disk, a missing mount: worth waiting for
        reason = error.strerror or error
        raise StoreUnavailableError(f"The artifact folder does not answer: {reason}.") from error
