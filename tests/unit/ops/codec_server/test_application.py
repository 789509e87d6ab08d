"""Requests over HTTP, each to a server that listens."""

import asyncio
import base64
import contextlib
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from http.client import HTTPConnection
from typing import Any
from urllib.parse import urlsplit

import pytest
from temporalio.api.common.v1 import Payload
from temporalio.converter import WorkflowSerializationContext as Workflow

from durable_adk.encryption import EncryptionCodec, Key, KeyRing
from durable_adk.errors import InvalidRequestError
from durable_adk.ops.codec_server import Access, Decoder, codec_application, serve
from durable_adk.ops.codec_server.application import MAX_BODY, MAX_PAYLOADS
from tests.support.waiting import PATIENCE

TOKEN = Access().token
UI = "http://localhost:8233"
BEARER = {"Authorization": f"Bearer {TOKEN}"}
CODEC = EncryptionCodec(keys=KeyRing([Key.new("k")]))


@dataclass(frozen=True)
class Answer:
    """What came back."""

    status: int
    body: bytes
    headers: dict[str, str] = field(default_factory=dict[str, str])


@dataclass(frozen=True)
class Caller:
    """Asks the server."""

    port: int

    async def ask(
        self, path: str, body: bytes | str = b"", *, method: str = "POST", **headers: str
    ) -> Answer:
        """A request with the token, unless headers are passed."""
        given = {name.replace("_", "-"): text for name, text in headers.items()} or BEARER
        given = {"Content-Type": "application/json"} | given
        return await asyncio.to_thread(self._ask, method, path, body, given)

    def _ask(self, method: str, path: str, body: bytes | str, headers: dict[str, str]) -> Answer:
        connection = HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)
        with contextlib.closing(connection):
            connection.request(method, path, body, headers)
            response = connection.getresponse()
            told = {name.lower(): text for name, text in response.getheaders()}
            return Answer(response.status, response.read(), told)


@pytest.fixture
async def caller() -> AsyncIterator[Caller]:
    """One of a server that runs."""
    access = Access(token=TOKEN, origins=(UI,))
    heard: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    made = codec_application(Decoder(codec=CODEC), access)
    serving = serve(made, host="127.0.0.1", port=0, listening=heard.set_result)
    task = asyncio.create_task(serving)
    yield Caller(urlsplit(await heard).port or 0)
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task


def text(data: bytes) -> str:
    """Base64."""
    return base64.b64encode(data).decode()


async def secret(value: str = "canary-7c1d") -> dict[str, Any]:
    """An encrypted payload as Temporal's UI sends it."""
    plain = Payload(metadata={"encoding": b"json/plain"}, data=json.dumps(value).encode())
    (made,) = await CODEC.with_context(Workflow("default", "w")).encode([plain])
    metadata = {name: text(data) for name, data in made.metadata.items()}
    return {"metadata": metadata, "data": text(made.data)}


def asked(*payloads: Any) -> str:
    """A body."""
    return json.dumps({"payloads": payloads})


async def test_what_is_encrypted_comes_back_in_the_open(caller: Caller) -> None:
    """D16: as protobuf's JSON, at any depth of the path, never to be cached."""
    for path in ("/decode", "/default/decode", "/download", "/decode?preserveStorageRefs=true"):
        answer = await caller.ask(path, asked(await secret()))
        assert answer.status == 200, path
        (payload,) = json.loads(answer.body)["payloads"]
        assert base64.b64decode(payload["data"]) == b'"canary-7c1d"'
        assert base64.b64decode(payload["metadata"]["encoding"]) == b"json/plain"
        assert answer.headers["cache-control"] == "no-store"
    for nothing in (asked(), "{}"):
        assert json.loads((await caller.ask("/decode", nothing)).body) == {"payloads": []}


@pytest.mark.parametrize(
    "headers",
    [
        {"X": "none"},
        {"Authorization": "Bearer wrong-token-of-sixteen"},
        {"Authorization": "Bearer "},
        {"Authorization": TOKEN},
        {"Authorization": f"Basic {TOKEN}"},
    ],
)
async def test_without_the_token_nothing_is_decoded(
    caller: Caller, headers: dict[str, str]
) -> None:
    """S7: 401, whatever the path, and the answer holds no content."""
    for path in ("/decode", "/encode", "/nothing", "/wrong-token-of-sixteen/decode"):
        answer = await caller.ask(path, asked(await secret()), **headers)
        assert (answer.status, answer.headers["www-authenticate"]) == (401, "Bearer"), path
        assert b"canary" not in answer.body


async def test_the_token_may_be_a_part_of_the_path(caller: Caller) -> None:
    """S7: a browser's page can send no header of its operator's choice."""
    answer = await caller.ask(f"/{TOKEN}/decode", asked(await secret()), X="none")
    assert answer.status == 200


async def test_it_encrypts_nothing(caller: Caller) -> None:
    """S7: whoever has the token can read, and never write as if they had the keys."""
    assert (await caller.ask("/encode", asked(await secret()))).status == 403


async def test_other_ways_lead_nowhere(caller: Caller) -> None:
    """S7: there is one method, and there are two paths."""
    assert (await caller.ask("/other")).status == 404
    assert (await caller.ask("/decode", method="GET")).status == 405


async def test_another_host_is_refused(caller: Caller) -> None:
    """S7: a page whose name was bound to our address (DNS rebinding) has its own name in there."""
    for host in ("evil.example", "evil.example:80", "localhost.evil.example", "", "127.0.0.1@evil"):
        answer = await caller.ask("/decode", asked(await secret()), Host=host, **BEARER)
        assert answer.status == 403, host
        assert b"canary" not in answer.body
    for host in ("localhost:1", "127.0.0.1", "[::1]:8081"):
        assert (await caller.ask("/decode", asked(), Host=host, **BEARER)).status == 200


async def test_only_the_ui_may_read_answers(caller: Caller) -> None:
    """S7: another page gets no CORS headers, so its browser keeps the answer from it."""
    ours = await caller.ask("/decode", asked(await secret()), Origin=UI, **BEARER)
    assert ours.headers["access-control-allow-origin"] == UI
    assert (await caller.ask("/decode", asked(), Origin=UI)).status == 401
    for origin in ("http://evil.example", f"{UI}.evil.example", "null", "http://localhost:8234"):
        answer = await caller.ask("/decode", asked(await secret()), Origin=origin, **BEARER)
        assert answer.status == 403, origin
        assert b"canary" not in answer.body
        assert "access-control-allow-origin" not in answer.headers


async def test_a_body_must_be_json(caller: Caller) -> None:
    """S7: a page of another origin cannot send such a body without asking its browser first."""
    answer = await caller.ask("/decode", asked(), Content_Type="text/plain", **BEARER)
    assert answer.status == 415


async def test_a_browser_is_told_before_whether_it_may_ask(caller: Caller) -> None:
    """S7: the preflight has no token and needs none; it allows the UI what the UI sends."""
    wanted = {
        "Access_Control_Request_Method": "POST",
        "Access_Control_Request_Headers": "authorization,content-type,x-namespace",
        "Access_Control_Request_Private_Network": "true",
    }
    answer = await caller.ask("/decode", method="OPTIONS", Origin=UI, **wanted)
    assert answer.status == 200
    assert answer.headers["access-control-allow-origin"] == UI
    assert "POST" in answer.headers["access-control-allow-methods"]
    refused = await caller.ask("/decode", method="OPTIONS", Origin="http://evil.example", **wanted)
    assert refused.status == 400
    assert "access-control-allow-origin" not in refused.headers


async def test_what_is_too_much_is_refused(caller: Caller) -> None:
    """S16: bytes, payloads and depth are bounded; the server continues."""
    assert (await caller.ask("/decode", asked(*[{}] * (MAX_PAYLOADS + 1)))).status == 413
    assert (await caller.ask("/decode", b" " * (MAX_BODY + 1))).status == 413
    assert (await caller.ask("/decode", "[" * 200_000)).status == 400
    deep: Any = {}
    for _ in range(50):
        deep = {"metadata": deep}
    assert (await caller.ask("/decode", asked(deep))).status == 400
    assert (await caller.ask("/decode", asked(await secret()))).status == 200


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"null",
        b"[]",
        b"\xff",
        b'{"payloads": {}}',
        b'{"payloads": [1]}',
        b'{"payloads": [{"data": 1}]}',
        b'{"payloads": ["canary-7c1d"]}',
        b'{"payloads": [{"data": "x"}]}',
        b'{"payloads": [{"metadata": ["canary-7c1d"]}]}',
        b'{"payloads": [{"metadata": {"encoding": {}}}]}',
    ],
)
async def test_what_is_no_request_is_refused_without_being_quoted(
    caller: Caller, body: bytes
) -> None:
    """S16: 400, and never a fault of ours."""
    answer = await caller.ask("/decode", body)
    assert answer.status == 400
    assert b"canary" not in answer.body


async def test_the_namespace_that_is_looked_at_is_the_one_that_is_read(caller: Caller) -> None:
    """S7: Temporal's clients say it, and what is of another does not pass for its own."""
    for namespace, read in (("default", True), ("other", False)):
        headers = {**BEARER, "X_Namespace": namespace}
        answer = await caller.ask("/decode", asked(await secret()), **headers)
        (payload,) = json.loads(answer.body)["payloads"]
        assert (b"canary" in base64.b64decode(payload["data"])) == read


async def test_what_a_newer_temporal_adds_is_no_error(caller: Caller) -> None:
    """D6: fields that are not known here are passed over."""
    payload = {**await secret(), "new": {"x": 1}}
    answer = await caller.ask("/decode", json.dumps({"payloads": [payload], "new": 1}))
    assert answer.status == 200


async def test_no_content_and_no_token_is_in_a_log(
    caller: Caller, caplog: pytest.LogCaptureFixture
) -> None:
    """I19: there are counts, at every level."""
    caplog.set_level("DEBUG")
    await caller.ask(f"/{TOKEN}/decode", asked(await secret()), X="none")
    await caller.ask("/decode", asked({"data": text(b"canary-7c1d")}), **BEARER)
    await caller.ask("/decode", b'{"payloads": ["canary-7c1d"]}')
    await caller.ask("/canary-7c1d/decode", X="none")
    ours = [f"{record.getMessage()} {vars(record)}" for record in caplog.records]
    assert sum("codec.decoded" in line for line in ours) == 2
    assert not [line for line in ours if "canary" in line or TOKEN in line]


async def test_an_address_that_is_taken_says_so(caller: Caller) -> None:
    """D16: with the options that choose another."""
    made = codec_application(Decoder(codec=CODEC), Access())
    with pytest.raises(InvalidRequestError, match="--port"):
        await serve(made, host="127.0.0.1", port=caller.port, listening=print)
