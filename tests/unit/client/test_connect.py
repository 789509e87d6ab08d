"""How values are written, as the settings say."""

from pathlib import Path

import pytest

from durable_adk.client.connect import converter_of
from durable_adk.converter import data_converter
from durable_adk.embedded.shared import payloads_folder
from durable_adk.settings import Settings
from durable_adk.storage import OwnedStorage


def test_one_setting_keeps_payloads_outside(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """D16: for a Temporal of one's own it is off by default; the embedded one goes by it too."""
    assert converter_of(Settings()) is data_converter
    assert payloads_folder(tmp_path) == tmp_path / "payloads"
    monkeypatch.setenv("DURABLE_ADK_PAYLOADS", str(tmp_path / "shared"))
    monkeypatch.setenv("DURABLE_ADK_PAYLOAD_THRESHOLD", "10")
    storage = converter_of(Settings()).external_storage
    assert isinstance(storage, OwnedStorage)
    assert storage.payload_size_threshold == 10
    assert (tmp_path / "shared" / "key").is_file()
    assert payloads_folder(tmp_path) == tmp_path / "shared"
