"""Where a connection goes, and how values are written on it, as the settings say."""

from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from temporalio.client import Client
from temporalio.service import RPCError, RPCStatusCode, TLSConfig

from durable_adk.artifacts import FileArtifactService, ObjectArtifactService
from durable_adk.client.connect import (
    connect,
    converter_of,
    is_local,
    reason_of,
    refuse_development_server,
)
from durable_adk.embedded.shared import payload_storage
from durable_adk.embedded.stores import folder_stores
from durable_adk.encryption import EncryptionCodec, Key
from durable_adk.errors import InvalidRequestError, TemporalUnavailableError
from durable_adk.settings import Settings
from durable_adk.storage.payload_driver import OwnedStorage
from durable_adk.wire.converter import data_converter


def test_one_setting_keeps_payloads_outside(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """D16: for a Temporal of one's own it is off by default; the embedded one goes by it too."""
    assert converter_of(Settings()) is data_converter
    assert payload_storage(tmp_path) == tmp_path / "payloads"
    monkeypatch.setenv("DURABLE_ADK_PAYLOADS", str(tmp_path / "shared"))
    monkeypatch.setenv("DURABLE_ADK_PAYLOAD_THRESHOLD", "10")
    storage = converter_of(Settings()).external_storage
    assert isinstance(storage, OwnedStorage)
    assert storage.payload_size_threshold == 10
    assert (tmp_path / "shared" / "key").is_file()
    assert payload_storage(tmp_path) == tmp_path / "shared"


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


PROFILE = """
[profile.cloud]
address = "shop.example:7233"
namespace = "shop.a1b2c"
api_key = "secret"

[profile.cloud.tls]
server_name = "shop.tmprl.example"
server_ca_cert_data = "ca"
client_cert_data = "certificate"
client_key_data = "key"
"""


async def test_a_profile_reaches_the_connection(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """D18: address, namespace, API key, mutual TLS; an address that is passed goes first."""
    told: list[dict[str, Any]] = []

    async def connected(**options: Any) -> None:
        told.append(options)

    (tmp_path / "temporal.toml").write_text(PROFILE)
    monkeypatch.setenv("TEMPORAL_CONFIG_FILE", str(tmp_path / "temporal.toml"))
    monkeypatch.setenv("TEMPORAL_PROFILE", "cloud")
    monkeypatch.setattr(Client, "connect", connected)
    await connect()
    await connect("other:7233")
    profile, other = told
    assert (profile["target_host"], profile["namespace"]) == ("shop.example:7233", "shop.a1b2c")
    assert profile["api_key"] == "secret"
    assert profile["tls"] == TLSConfig(
        domain="shop.tmprl.example",
        server_root_ca_cert=b"ca",
        client_cert=b"certificate",
        client_private_key=b"key",
    )
    assert other == profile | {"target_host": "other:7233"}


async def test_a_development_server_of_this_machine_is_no_danger() -> None:
    """S26: only one that others can reach is refused, and only that is asked what it is."""
    assert all(is_local(host) for host in ("127.0.0.1:7233", "localhost:7233", "[::1]:7233"))
    assert not any(is_local(host) for host in ("temporal:7233", "10.0.0.1:7233", "localhost.me:1"))


@pytest.mark.parametrize(
    ("status", "refusal"),
    [
        (RPCStatusCode.PERMISSION_DENIED, None),
        (RPCStatusCode.UNAUTHENTICATED, None),
        (RPCStatusCode.UNAVAILABLE, TemporalUnavailableError),
    ],
)
async def test_a_server_that_does_not_say_what_it_is_to_everybody_is_a_real_one(
    status: RPCStatusCode, refusal: type[Exception] | None
) -> None:
    """S26: one that asks who they are keeps what is of the cluster from those of a namespace."""

    class Closed:
        async def get_cluster_info(self, _: object) -> None:
            raise RPCError("no", status, b"")

    service = SimpleNamespace(config=SimpleNamespace(target_host="temporal.example:7233"))
    secured: Any = SimpleNamespace(service_client=service, workflow_service=Closed())
    with pytest.raises(refusal) if refusal else nullcontext():
        await refuse_development_server(secured)


async def test_one_setting_encrypts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """D16: for every Temporal; with the storage what is kept there is encrypted too."""
    assert converter_of(Settings()).payload_codec is None
    file = tmp_path / "keys"
    file.write_text(f"{Key.new('ours').line()}\n")
    file.chmod(0o600)
    monkeypatch.setenv("DURABLE_ADK_ENCRYPTION_KEYS", str(file))
    monkeypatch.setenv("DURABLE_ADK_PAYLOADS", str(tmp_path / "shared"))
    converter = converter_of(Settings())
    assert isinstance(converter.payload_codec, EncryptionCodec)
    assert not converter.payload_codec.accepts_plain
    assert isinstance(converter.external_storage, OwnedStorage)
    (payload,) = await converter.encode(["hello"])
    assert payload.metadata["encryption-key-id"] == b"ours"
    file.chmod(0o644)
    with pytest.raises(InvalidRequestError, match="chmod 600"):
        converter_of(Settings())


REFUSED = """Failed client connect: Server connection error: tonic::transport::Error(Transport,
ConnectError(ConnectError("tcp connect error", 127.0.0.1:1, Os { code: 111, kind: ConnectionRefused,
message: "Connection refused" })))"""
UNKNOWN = """tonic::transport::Error(Transport, ConnectError(ConnectError("dns error", Custom {
kind: Uncategorized,
error: "failed to lookup address information: Name or service not known" })))"""


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (REFUSED, "Connection refused"),
        (UNKNOWN, "Name or service not known"),
        ('tonic::transport::Error(Transport, ConnectError("timed out"))', "timed out"),
        ("Server connection error: tonic::transport::Error(Transport)", "Server connection error"),
        ("tonic::transport::Error(Transport)", "the connection failed"),
        ("No such file", "No such file"),
    ],
)
def test_a_failed_connection_is_told_in_words(text: str, reason: str) -> None:
    """What the SDK's Rust core writes is for its developers; a person reads its reason."""
    assert reason_of(RuntimeError(text)) == reason
