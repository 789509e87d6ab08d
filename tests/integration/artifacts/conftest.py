"""Artifacts on S3, for the contract in tests/unit/artifacts."""

from collections.abc import AsyncIterator

import pytest

from durable_adk.artifacts import ObjectArtifactService
from tests.support.s3 import S3


@pytest.fixture
async def service(s3: S3) -> AsyncIterator[ObjectArtifactService]:
    """An empty artifact service."""
    made = ObjectArtifactService(s3.uri())
    yield made
    await made.close()
