"""The artifact service of a configured location."""

from pathlib import Path

from durable_adk.artifacts.base_artifact_service import BaseArtifactService
from durable_adk.artifacts.file_artifact_service import FileArtifactService
from durable_adk.artifacts.object_artifact_service import ObjectArtifactService
from durable_adk.storage.location import resolved


def artifacts_at(location: Path | str) -> BaseArtifactService:
    """Return the service for a folder, or for the URI of an object store.

    Raises:
        InvalidRequestError: The URI cannot be used, or the extra ``objects`` is not installed.
    """
    where = resolved(location)
    return FileArtifactService(where) if isinstance(where, Path) else ObjectArtifactService(where)
