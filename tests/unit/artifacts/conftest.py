"""Artifact services to test."""

import pytest

from durable_adk.artifacts import (
    FileArtifactService,
    InMemoryArtifactService,
    ObjectArtifactService,
)


@pytest.fixture(
    params=["memory", "files", pytest.param("s3", marks=pytest.mark.sampled(3)), "objects on disk"]
)
async def service(request, tmp_path):
    """An empty artifact service, of each kind in turn."""
    if request.param == "memory":
        made = InMemoryArtifactService()
    elif request.param == "files":
        made = FileArtifactService(tmp_path / "folder" / "artifacts")
    elif request.param == "s3":
        made = ObjectArtifactService(request.getfixturevalue("s3").uri())
    else:
        made = ObjectArtifactService((tmp_path / "folder" / "objects").as_uri())
    yield made
    await made.close()
