"""Artifacts in memory."""

from collections import defaultdict
from collections.abc import AsyncGenerator, AsyncIterable, Iterable
from dataclasses import replace
from threading import Lock

from google.genai import types

from durable_adk.artifacts._key import ArtifactKey, ArtifactScope
from durable_adk.artifacts._record import split
from durable_adk.artifacts._reference import path_of
from durable_adk.artifacts._stored import Draft, OpenedVersion, StoredArtifactService
from durable_adk.artifacts.base_artifact_service import ArtifactVersion


class InMemoryArtifactService(StoredArtifactService):
    """All artifacts in memory, for tests and scripts; usable from any thread (TRAP-8)."""

    def __init__(self) -> None:
        super().__init__(_MemoryVersions())


class _MemoryVersions:
    """Versions in lists. The lock is held for microseconds only, so it may block an event loop."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._versions: defaultdict[ArtifactScope, dict[str, list[Draft]]] = defaultdict(dict)

    async def add(self, key: ArtifactKey, draft: Draft) -> int:
        if draft.chunks is not None:
            draft = await _collected(draft, draft.chunks)
        with self._lock:
            drafts = self._versions[key.scope].setdefault(key.filename, [])
            for number, earlier in enumerate(drafts):
                if draft.save_key and earlier.save_key == draft.save_key:
                    return number
            drafts.append(draft)
            return len(drafts) - 1

    async def numbers(self, key: ArtifactKey) -> list[int]:
        with self._lock:
            return list(range(len(self._drafts(key))))

    async def open(self, key: ArtifactKey, version: int) -> OpenedVersion | None:
        draft = self._draft(key, version)
        if draft is None:
            return None
        part, content, data = split(draft.part.model_copy(deep=True))

        async def read() -> AsyncGenerator[bytes]:
            yield data

        return OpenedVersion(part=part, content=content, size=len(data), read=read)

    async def describe(self, key: ArtifactKey, versions: Iterable[int]) -> list[ArtifactVersion]:
        drafts = {number: self._draft(key, number) for number in versions}
        return [
            ArtifactVersion(
                version=number,
                canonical_uri=f"memory://{path_of(key, number)}",
                custom_metadata=draft.custom_metadata,
                create_time=draft.create_time,
                mime_type=draft.mime_type,
            ).model_copy(deep=True)
            for number, draft in drafts.items()
            if draft
        ]

    async def names(self, scope: ArtifactScope) -> list[str]:
        with self._lock:
            return list(self._versions.get(scope, {}))

    async def remove(self, key: ArtifactKey) -> None:
        with self._lock:
            self._versions.get(key.scope, {}).pop(key.filename, None)

    def _drafts(self, key: ArtifactKey) -> list[Draft]:
        return self._versions.get(key.scope, {}).get(key.filename, [])

    def _draft(self, key: ArtifactKey, version: int) -> Draft | None:
        with self._lock:
            return next(iter(self._drafts(key)[version : version + 1]), None)


async def _collected(draft: Draft, chunks: AsyncIterable[bytes]) -> Draft:
    """The draft with the content of its chunks."""
    data = b"".join([chunk async for chunk in chunks])
    part = types.Part.from_bytes(data=data, mime_type=draft.mime_type or "")
    return replace(draft, part=part, chunks=None)
