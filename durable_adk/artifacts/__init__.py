"""Artifacts: named, versioned files of a session or a user, and the services that store them."""

from durable_adk.artifacts.base_artifact_service import (
    ArtifactReader,
    ArtifactVersion,
    BaseArtifactService,
)
from durable_adk.artifacts.file_artifact_service import FileArtifactService
from durable_adk.artifacts.in_memory_artifact_service import InMemoryArtifactService
from durable_adk.artifacts.location import artifacts_at
from durable_adk.artifacts.object_artifact_service import GcsArtifactService, ObjectArtifactService

__all__ = [
    "ArtifactReader",
    "ArtifactVersion",
    "BaseArtifactService",
    "FileArtifactService",
    "GcsArtifactService",
    "InMemoryArtifactService",
    "ObjectArtifactService",
    "artifacts_at",
]
