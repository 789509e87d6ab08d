"""Artifact services to test."""

import pytest

from durable_adk.artifacts import FileArtifactService, InMemoryArtifactService


@pytest.fixture(params=["memory", "files"])
async def service(request, tmp_path):
    """An empty artifact service, of each kind in turn."""
    if request.param == "memory":
        made = InMemoryArtifactService()
    else:
        made = FileArtifactService(tmp_path / "folder" / "artifacts")
    yield made
    await made.close()
