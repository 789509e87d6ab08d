"""Artifacts in memory."""

from durable_adk.artifacts._stored import StoredArtifactService
from durable_adk.storage.memory_objects import MemoryObjects


class InMemoryArtifactService(StoredArtifactService):
    """All artifacts in memory, for tests and scripts; usable from any thread (TRAP-8)."""

    def __init__(self) -> None:
        super().__init__(MemoryObjects())
