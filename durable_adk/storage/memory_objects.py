"""Objects in the memory of one process."""

import time
from collections.abc import AsyncGenerator, AsyncIterable, Sequence

from durable_adk.storage.objects import Objects, StoredObject


class MemoryObjects(Objects):
    """Objects in a dict; usable from any thread, because each access is one dict operation."""

    uri = "memory:/"

    def __init__(self) -> None:
        self._objects: dict[str, tuple[bytes, float]] = {}

    async def create(self, path: str, data: bytes) -> bool:
        """See `Objects`."""
        made = data, time.time()
        return self._objects.setdefault(path, made) is made

    async def put(self, path: str, content: bytes | AsyncIterable[bytes]) -> None:
        """See `Objects`."""
        if not isinstance(content, bytes):
            content = b"".join([chunk async for chunk in content])
        self._objects[path] = content, time.time()

    async def get(self, path: str) -> bytes | None:
        """See `Objects`."""
        found = self._objects.get(path)
        return found and found[0]

    async def read(self, path: str, size: int) -> AsyncGenerator[bytes]:
        """See `Objects`."""
        del size
        found = self._objects.get(path)
        if found is None:
            raise FileNotFoundError(f"{self.uri}/{path} has been deleted.")
        yield found[0]

    async def list(self, prefix: str = "") -> list[StoredObject]:
        """See `Objects`."""
        below = f"{prefix}/" if prefix else ""
        found = self._objects.copy()
        return [
            StoredObject(path, at, len(data))
            for path, (data, at) in found.items()
            if path.startswith(below)
        ]

    async def delete(self, paths: Sequence[str]) -> None:
        """See `Objects`."""
        for path in paths:
            self._objects.pop(path, None)
