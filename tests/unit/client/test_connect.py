"""How values are written, as the settings say."""

from pathlib import Path

import pytest

from durable_adk.artifacts import FileArtifactService, ObjectArtifactService
from durable_adk.client.connect import converter_of
from durable_adk.converter import data_converter
from durable_adk.embedded.shared import payloads_place
from durable_adk.embedded.stores import folder_stores
from durable_adk.errors import InvalidRequestError
from durable_adk.settings import Settings
from durable_adk.storage import OwnedStorage
from tests.support.s3 import S3


def test_one_setting_keeps_payloads_outside(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """D16: for a Temporal of one's own it is off by default; the embedded one goes by it too."""
    assert converter_of(Settings()) is data_converter
    assert payloads_place(tmp_path) == tmp_path / "payloads"
    monkeypatch.setenv("DURABLE_ADK_PAYLOADS", str(tmp_path / "shared"))
    monkeypatch.setenv("DURABLE_ADK_PAYLOAD_THRESHOLD", "10")
    storage = converter_of(Settings()).external_storage
    assert isinstance(storage, OwnedStorage)
    assert storage.payload_size_threshold == 10
    assert (tmp_path / "shared" / "key").is_file()
    assert payloads_place(tmp_path) == tmp_path / "shared"


async def test_payloads_may_be_in_an_object_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, s3: S3
) -> None:
    """D16: a uri stays one, and every process that names it has the same key."""
    monkeypatch.setenv("DURABLE_ADK_PAYLOADS", s3.uri())
    drivers = [converter_of(Settings()).external_storage.drivers[0] for _ in range(2)]  # type: ignore[union-attr]
    assert drivers[0].key == drivers[1].key  # type: ignore[attr-defined]
    assert payloads_place(tmp_path) == Settings().payloads


async def test_artifacts_are_where_the_setting_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A folder, or the uri of an object store; one that cannot be used is refused at once."""
    for location, kind in [
        (None, FileArtifactService),
        (str(tmp_path / "other"), FileArtifactService),
        ("s3://bucket/prefix", ObjectArtifactService),
    ]:
        if location:
            monkeypatch.setenv("DURABLE_ADK_ARTIFACTS", location)
        async with folder_stores(tmp_path) as stores:
            assert isinstance(stores.artifact_service, kind)
    monkeypatch.setenv("DURABLE_ADK_ARTIFACTS", "ftp://host/x")
    with pytest.raises(InvalidRequestError, match="s3://"):
        async with folder_stores(tmp_path):
            pass
