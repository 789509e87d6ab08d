"""Where a user may have messages sent, and that they go nowhere else."""

import asyncio
import datetime as dt
import logging
import socket
import ssl
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from durable_adk.activities.webhook.delivery import _Message, _post
from durable_adk.errors import InvalidRequestError, WebhookError
from durable_adk.http import webhook_address as address
from durable_adk.http.webhook_address import addresses_of, is_public
from tests.support.waiting import PATIENCE

PUBLIC = ["93.184.215.14", "2606:2800:21f:cb07::1", "64:ff9b::5db8:d70e", "::ffff:93.184.215.14"]
OTHERS = [
    *("127.0.0.1", "10.0.0.1", "172.16.0.1", "192.168.1.1", "169.254.169.254", "100.64.0.1"),
    *("0.0.0.0", "224.0.0.1", "255.255.255.255", "240.0.0.1", "192.0.2.1"),  # noqa: S104
    *("::1", "::", "fe80::1%eth0", "fc00::1", "fec0::1", "ff02::1", "2001:db8::1"),
    *("::ffff:127.0.0.1", "64:ff9b::7f00:1", "2002:7f00:1::", "2001:0:4136:e378::"),
]


def test_only_addresses_of_the_internet_are_public() -> None:
    """Also within addresses that carry one of IPv4."""
    assert [one for one in PUBLIC if not is_public(one)] == []
    assert [one for one in OTHERS if is_public(one)] == []


@pytest.mark.parametrize(
    "url",
    [
        *("http://93.184.215.14/", "ftp://93.184.215.14/", "93.184.215.14", "", "https://"),
        *("https://127.0.0.1/", "https://localhost/", "https://2130706433/", "https://0x7f.1/"),
        *("https://[::1]/", "https://a:b@93.184.215.14/", "https://\x00/", f"https://{'a' * 300}/"),
        *(f"https://93.184.215.14:{port}/" for port in (0, 65_536, 2**70, -1)),
    ],
)
async def test_other_urls_are_refused(url: str) -> None:
    """However they are written, and without repeating them."""
    with pytest.raises(InvalidRequestError) as refused:
        await addresses_of(url, ["127.0.0.1:9000"])
    assert not url or url not in refused.value.message


async def test_one_private_address_among_others_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """A name may have several; and it is asked for once."""
    found = ["2606:2800:21f:cb07::1", "93.184.215.14"]

    def resolved(*_: object, **__: object) -> list[tuple[object, ...]]:
        kinds = [(10 if ":" in one else 2, one) for one in found]
        return [(kind, 1, 6, "", (one, 443)) for kind, one in kinds]

    monkeypatch.setattr(socket, "getaddrinfo", resolved)
    assert await addresses_of("https://hooks.example.com/", []) == found[::-1]
    found.append("10.0.0.7")
    with pytest.raises(InvalidRequestError, match="DURABLE_ADK_PUSH_HOSTS"):
        await addresses_of("https://hooks.example.com/", [])


async def test_hosts_that_are_never_found_keep_nobody_waiting(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A user can name many whose name servers do not answer; other work still has threads."""
    answers = threading.Event()

    def found(*_: object, **__: object) -> list[object]:
        answers.wait()
        return []

    monkeypatch.setattr(socket, "getaddrinfo", found)
    monkeypatch.setattr(address, "LOOKUP_TIMEOUT", 0.05)
    try:
        async with asyncio.timeout(PATIENCE):
            for found in await asyncio.gather(
                *(addresses_of(f"https://{name}.example/", []) for name in range(100)),
                return_exceptions=True,
            ):
                assert isinstance(found, OSError)
            assert await asyncio.to_thread(lambda: "done") == "done"
    finally:
        answers.set()


async def test_a_name_server_that_never_answers_holds_up_no_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One name needs one thread at a time."""
    answers, asked = threading.Event(), list[str]()

    def found(host: str, *_: object, **__: object) -> list[tuple[object, ...]]:
        asked.append(host)
        if host != NAME:
            answers.wait()
        return [(2, 1, 6, "", (PUBLIC[0], 443))]

    async def look(host: str) -> list[str]:
        return await addresses_of(f"https://{host}/", [])

    monkeypatch.setattr(socket, "getaddrinfo", found)
    monkeypatch.setattr(address, "LOOKUP_TIMEOUT", PATIENCE)
    try:
        slow = [asyncio.create_task(look(f"silent-{n % 8}.example")) for n in range(40)]
        await asyncio.sleep(0)
        assert await look(NAME) == PUBLIC[:1]
        answers.set()
        await asyncio.gather(*slow)
        assert len([host for host in asked if host.startswith("silent-")]) == 8
    finally:
        answers.set()


async def test_an_operator_allows_hosts() -> None:
    """With or without the port; they may be reached at any address."""
    assert await addresses_of("http://127.0.0.1:9000/x", ["127.0.0.1:9000"]) == []
    assert await addresses_of("https://localhost/x", ["localhost:443"]) == []
    assert await addresses_of("http://localhost:1/x", ["localhost"]) == []


NAME = "hooks.example.com"


@asynccontextmanager
async def tls_server(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[tuple[int, list[str]]]:
    """A server with a certificate of `NAME`; its port, and the heads of the requests."""
    key, now = ec.generate_private_key(ec.SECP256R1()), dt.datetime.now(dt.UTC)
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, NAME)])
    day = dt.timedelta(days=1)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - day)
        .not_valid_after(now + day)
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(NAME)]), critical=False)
        .sign(key, hashes.SHA256())
    )
    pem = folder / "pem"
    text = certificate.public_bytes(serialization.Encoding.PEM)
    form = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    pem.write_bytes(text + key.private_bytes(serialization.Encoding.PEM, *form))
    monkeypatch.setenv("SSL_CERT_FILE", str(pem))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pem)
    heads: list[str] = []

    async def respond(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heads.append((await reader.readuntil(b"\r\n\r\n")).decode())
        writer.write(b"HTTP/1.1 204 No Content\r\n\r\n")
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(respond, "127.0.0.1", 0, ssl=context)
    async with server:
        yield server.sockets[0].getsockname()[1], heads


async def test_a_message_goes_to_the_address_that_was_checked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The name is not asked for again, and the certificate must be the name's; no log has the URL.

    An address that nobody listens at is left for the next one.
    """
    caplog.set_level(logging.DEBUG)
    async with tls_server(tmp_path, monkeypatch) as (port, heads):
        for name, where in ((NAME, ["127.0.0.2", "127.0.0.1"]), ("other.example", ["127.0.0.1"])):
            message = _Message(f"https://{name}:{port}/x?token=secret", {}, "{}", where)
            if name == NAME:
                assert await _post(message, "msg_1") == 204
            else:
                with pytest.raises(WebhookError):
                    await _post(message, "msg_2")
    (head,) = heads
    assert head.startswith("POST /x?token=secret HTTP/1.1\r\n")
    assert f"Host: {NAME}:{port}\r\n".lower() in head.lower()
    assert "secret" not in caplog.text
