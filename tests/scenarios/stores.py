"""The stores beside the session's that all processes of a mode share."""

from pathlib import Path
from typing import Any

from durable_adk.artifacts import FileArtifactService
from durable_adk.auth.credential_service import FileCredentialService
from durable_adk.memory import SqliteMemoryService


def shared_stores(folder: Path) -> dict[str, Any]:
    """Arguments of `worker` and `Runner`."""
    return {
        "artifact_service": FileArtifactService(folder / "artifacts"),
        "credential_service": FileCredentialService(folder / "credentials"),
        "memory_service": SqliteMemoryService(folder / "memory.db"),
    }
