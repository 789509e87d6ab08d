"""Where a connection goes, and how values are written on it, as the settings say."""

import sys
from pathlib import Path

import pytest
from temporalio.client import Client

from durable_adk.client.connect import (
    connect,
    converter_of,
    refuse_development_server,
)
from durable_adk.embedded.shared import payload_storage
from durable_adk.errors import InvalidRequestError
from durable_adk.settings import Settings
from tests.support.s3 import S3


async def test_payloads_may_be_in_an_object_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, s3: S3
) -> None:
    """D16: a uri stays one, and every process that names it has the same key."""
    monkeypatch.setenv("DURABLE_ADK_PAYLOADS", s3.uri())
    drivers = [converter_of(Settings()).external_storage.drivers[0] for _ in range(2)]  # type: ignore[union-attr]
    assert drivers[0].key == drivers[1].key  # type: ignore[attr-defined]
    assert payload_storage(tmp_path) == Settings().payloads


async def test_a_development_server_that_others_can_reach_is_refused(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """S26: with the remedy. The tests' server is one; that it is of this machine is denied here."""
    await refuse_development_server(client)
    monkeypatch.setattr(sys.modules[connect.__module__], "is_local", lambda _: False)
    with pytest.raises(InvalidRequestError, match=r"is a development server.*--dev"):
        await refuse_development_server(client)
