"""Settings from the environment."""

import json

import pytest
from pydantic import ValidationError

from durable_adk.embedded.stores import folder_stores
from durable_adk.settings import Settings


async def test_the_environment_says_where_things_are_kept(tmp_path, monkeypatch):
    """Each store has a variable of its own; what has none is in the data folder."""
    monkeypatch.setenv("DURABLE_ADK_CREDENTIALS", str(tmp_path / "vault"))
    assert Settings().credentials == str(tmp_path / "vault")
    assert Settings().artifacts is Settings().memory is None
    async with folder_stores(tmp_path / "data"):
        assert (tmp_path / "vault").stat().st_mode & 0o777 == 0o700
        assert not (tmp_path / "data" / "credentials").exists()


def test_an_error_of_a_setting_quotes_no_secret(monkeypatch):
    """Neither a webhook's secret nor a token in its URL ends in a log."""
    endpoint = {"url": "ftp://example.com/?token=s3cret", "secret": "whsec_s3cret"}
    monkeypatch.setenv("DURABLE_ADK_WEBHOOKS", json.dumps([endpoint]))
    with pytest.raises(ValidationError, match="24 to 64 random bytes") as refused:
        Settings()
    assert "s3cret" not in str(refused.value)
