"""What a bucket keeps when processes share it, are killed, or find it unusable."""

import pytest

from durable_adk.artifacts import (
    FileArtifactService,
    GcsArtifactService,
    ObjectArtifactService,
    artifacts_at,
)
from durable_adk.errors import InvalidRequestError


@pytest.fixture
def uri(s3):
    return s3.uri()


@pytest.mark.parametrize(
    ("uri", "reason"),
    [
        ("ftp://host/x", "s3://, .*gs://"),
        ("memory:///", "s3://"),
        ("https://host/bucket", "s3://"),
        ("s3://", "cannot be used"),
        ("az://container/x", "Account"),
    ],
)
def test_a_uri_that_cannot_serve_is_refused(uri, reason, monkeypatch):
    """The error says what can."""
    monkeypatch.delenv("AZURE_STORAGE_ACCOUNT_NAME", raising=False)
    with pytest.raises(InvalidRequestError, match=reason):
        artifacts_at(uri)


def test_each_place_has_its_service(tmp_path, monkeypatch):
    """A folder has files; the uris of all providers can be made with what the environment says."""
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_NAME", "account")
    assert isinstance(artifacts_at(tmp_path), FileArtifactService)
    assert isinstance(artifacts_at("relative/folder"), FileArtifactService)
    for uri in ["gs://bucket/prefix", "az://container/prefix", "s3://bucket"]:
        assert isinstance(artifacts_at(uri), ObjectArtifactService)
    assert isinstance(GcsArtifactService("bucket"), ObjectArtifactService)
