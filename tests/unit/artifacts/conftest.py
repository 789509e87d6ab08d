"""Artifact services to test; tests/integration/artifacts runs the contract on S3."""

import pytest

from durable_adk.artifacts import (
    FileArtifactService,
    InMemoryArtifactService,
    ObjectArtifactService,
)


@pytest.fixture(params=["memory", "files", "objects on disk"])
async def service(request, tmp_path):
    """An empty artifact service, of each kind in turn."""
    if request.param == "memory":
        made = InMemoryArtifactService()
    elif request.param == "files":
        made = FileArtifactService(tmp_path / "folder" / "artifacts")
    else:
        made = ObjectArtifactService((tmp_path / "folder" / "objects").as_uri())
    yield made
    await made.close()
