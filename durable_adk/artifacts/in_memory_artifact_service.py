"""Artifacts that live as long as their process."""

from collections import defaultdict
from threading import Lock

from google.genai import types

from durable_adk.artifacts._key import ArtifactKey, Scope
from durable_adk.artifacts._reference import path_of
from durable_adk.artifacts._stored import Draft, StoredArtifactService
from durable_adk.artifacts.base_artifact_service import ArtifactVersion


class InMemoryArtifactService(StoredArtifactService):
    """All artifacts in memory, for tests and scripts; usable from any thread (TRAP-8)."""

    def __init__(self) -> None:
        super().__init__(_MemoryStore())


class _MemoryStore:
    """Versions in lists. The lock is held for microseconds, so waiting for it harms no loop."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._versions: defaultdict[Scope, dict[str, list[Draft]]] = defaultdict(dict)

    async def add(self, key: ArtifactKey, draft: Draft) -> int:
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

    async def part(self, key: ArtifactKey, version: int) -> types.Part | None:
        draft = self._draft(key, version)
        return draft and draft.part.model_copy(deep=True)

    async def describe(self, key: ArtifactKey, version: int) -> ArtifactVersion | None:
        draft = self._draft(key, version)
        return draft and ArtifactVersion(
            version=version,
            canonical_uri=f"memory://{path_of(key, version)}",
            custom_metadata=draft.custom_metadata,
            create_time=draft.create_time,
            mime_type=draft.mime_type,
        ).model_copy(deep=True)

    async def names(self, scope: Scope) -> list[str]:
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
