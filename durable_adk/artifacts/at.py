"""The artifact service of a place."""

from pathlib import Path

from durable_adk.artifacts.base_artifact_service import BaseArtifactService
from durable_adk.artifacts.file_artifact_service import FileArtifactService
from durable_adk.artifacts.object_artifact_service import ObjectArtifactService
from durable_adk.storage.object_store import place


def artifacts_at(location: Path | str) -> BaseArtifactService:
    """The service for a folder, or for the uri of an object store.

    Raises:
        InvalidRequestError: The uri cannot be used, or the extra ``objects`` is not installed.
    """
    where = place(location)
    return FileArtifactService(where) if isinstance(where, Path) else ObjectArtifactService(where)
