"""Artifacts: named, versioned files that belong to a session or a user, and where they are kept."""

from durable_adk.artifacts.base_artifact_service import ArtifactVersion, BaseArtifactService
from durable_adk.artifacts.file_artifact_service import FileArtifactService
from durable_adk.artifacts.in_memory_artifact_service import InMemoryArtifactService

__all__ = [
    "ArtifactVersion",
    "BaseArtifactService",
    "FileArtifactService",
    "InMemoryArtifactService",
]
