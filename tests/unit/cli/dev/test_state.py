"""The file in which `dev` keeps its ports, and says what it serves."""

import pytest

from durable_adk.cli.dev import state
from durable_adk.cli.dev.state import apps_of_dev, claim
from durable_adk.errors import AlreadyExistsError


async def test_what_is_served_is_known_for_as_long_as_dev_runs(tmp_path):
    """Another process learns the apps while the file is locked; the ports outlive the lock."""
    assert apps_of_dev(tmp_path) == []
    async with claim(tmp_path) as file:
        file.write(port=20001, apps=["weather"])
        assert apps_of_dev(tmp_path) == ["weather"]
    assert apps_of_dev(tmp_path) == []
    async with claim(tmp_path) as file:
        assert file.state.port == 20001


async def test_a_folder_has_one_dev(tmp_path, monkeypatch):
    """A second one is refused, and says what to do."""
    monkeypatch.setattr(state, "_LOCK_TIMEOUT", 0.0)
    async with claim(tmp_path):
        with pytest.raises(AlreadyExistsError, match="--data-dir"):
            async with claim(tmp_path):
                pass


async def test_a_file_that_cannot_be_read_counts_as_empty(tmp_path):
    """It may be of another version."""
    (tmp_path / "dev.json").write_text("[1]")
    async with claim(tmp_path) as file:
        assert file.state.port is None
