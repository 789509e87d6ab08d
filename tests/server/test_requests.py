"""What a request must be like before it is served."""

import asyncio
import hashlib
import json
import time
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, cast

import httpx
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route
from starlette.testclient import TestClient

from durable_adk.http.checks import KnownHosts, KnownOrigins, OneLength, SecurityHeaders
from durable_adk.server.access_log import shown_target
from durable_adk.server.authentication import Authentication, BearerTokens, Token
from durable_adk.server.limits import BodySize, Rates, SenderLimits, weight
from durable_adk.server.settings import ServerSettings
from durable_adk.wire.answer_token import AnswerToken
from tests.support.waiting import PATIENCE, until

METHODS = ["GET", "POST", "DELETE"]
KEY = "k" * 40


@dataclass
class Served:
    """An application that counts what has reached it."""

    requests: list[str] = field(default_factory=list[str])

    async def answer(self, request: Request) -> PlainTextResponse:
        body = await request.body()
        self.requests.append(request.method)
        return PlainTextResponse(str(len(body)))

    def app(self) -> Starlette:
        """The application."""
        return Starlette(routes=[Route("/{path:path}", self.answer, methods=METHODS)])


async def ask(app: Any, headers: Mapping[str, str], **more: Any) -> httpx.Response:
    """Send a request, by default a POST."""
    method, path = more.pop("method", "POST"), more.pop("path", "/x")
    transport = httpx.ASGITransport(app, client=(more.pop("peer", "127.0.0.1"), 1))
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost:8000") as client:
        return await client.request(method, path, headers=headers, **more)


async def test_a_page_with_a_rebound_name_is_refused() -> None:
    """It has its own name in Host, which a server on the loopback does not have."""
    served = Served()
    app = KnownHosts(served.app(), ServerSettings().hosts_of("127.0.0.1"))
    for host in ("localhost", "localhost:8000", "127.0.0.1:8000", "[::1]:8000", "LOCALHOST"):
        assert (await ask(app, {"Host": host})).status_code == 200
    for host in ("evil.example.com", "localhost.evil.com:8000", "", "127.0.0.1.nip.io", "[", "x@y"):
        refused = await ask(app, {"Host": host})
        assert refused.status_code == 403, host
        assert refused.json()["error"]["type"] == "PermissionDeniedError"
        assert refused.json()["detail"] == refused.json()["error"]["message"]
    assert len(served.requests) == 5
    any_host = KnownHosts(served.app(), ServerSettings().hosts_of("10.0.0.1"))
    assert (await ask(any_host, {"Host": "agents.example.com"})).status_code == 200
    listed = ServerSettings(hosts=["Agents.example.com", "[fd00::1]"]).hosts_of("10.0.0.1")
    for host in ("agents.example.com", "[fd00::1]:8000"):
        assert (await ask(KnownHosts(served.app(), listed), {"Host": host})).status_code == 200
    assert (await ask(KnownHosts(served.app(), listed), {"Host": "10.0.0.1"})).status_code == 403


def test_a_websocket_is_refused() -> None:
    """A browser opens one to any server, without asking first."""
    with (
        TestClient(KnownHosts(Served().app(), ["*"])) as client,
        pytest.raises(Exception, match=r".*") as refused,
        client.websocket_connect("/x"),
    ):
        pass
    assert getattr(refused.value, "code", None) == 1008


async def test_a_page_of_another_origin_changes_nothing() -> None:
    """Whatever method, and also where a browser sends no Origin; reading is up to the browser."""
    served = Served()
    app = KnownOrigins(served.app(), ["https://app.example.com"])
    foreign = [
        "https://evil.com",
        "null",
        "http://localhost:9000",
        "http://localhost",
        "//localhost:8000/",
    ]
    for method in ("POST", "DELETE"):
        for origin in foreign:
            refused = await ask(app, {"Origin": origin}, method=method)
            assert refused.status_code == 403, origin
        for site in ("cross-site", "same-site"):
            assert (await ask(app, {"Sec-Fetch-Site": site}, method=method)).status_code == 403
    assert served.requests == []
    for headers in (
        {},
        {"Origin": "http://localhost:8000"},
        {"Origin": "https://app.example.com"},
        {"Sec-Fetch-Site": "same-origin"},
    ):
        assert (await ask(app, headers)).status_code == 200
    assert (await ask(app, {"Origin": "https://evil.com"}, method="GET")).status_code == 200


async def test_a_body_must_be_json() -> None:
    """The other types are those that a page sends to any server without asking first."""
    app = KnownOrigins(Served().app())
    kinds = ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", "", "json"]
    for kind in kinds:
        refused = await ask(app, {"Content-Type": kind}, content=b"{}")
        assert refused.status_code == 415, kind
    assert (await ask(app, {}, content=_chunks([b"{}"]))).status_code == 415
    for kind in ("application/json", "application/json; charset=utf-8", "application/a2a+json"):
        assert (await ask(app, {"Content-Type": kind}, content=b"{}")).status_code == 200
    assert (await ask(app, {})).status_code == 200


async def _chunks(chunks: list[bytes]) -> AsyncIterator[bytes]:
    for chunk in chunks:
        yield chunk


def limit(max_bytes: int, max_values: int = 100) -> Callable[[str], BodySize]:
    """The same size for all paths."""
    return lambda _: BodySize(max_bytes, max_values)


def limited(
    app: Any, max_bytes: int = 10**7, max_values: int = 100, **options: Any
) -> SenderLimits:
    """An application whose senders have limits."""
    options = {"max_unread_bytes": 10**6, "max_held": 0, **options}
    return SenderLimits(app, limit(max_bytes, max_values), **options)


async def test_a_body_that_is_too_large_is_refused() -> None:
    """By its length where that is said, and else while it arrives."""
    served = Served()
    app = limited(served.app(), 100)
    assert (await ask(app, {}, content=b"x" * 100)).text == "100"
    assert (await ask(app, {}, content=_chunks([b"x" * 60, b"x" * 40]))).text == "100"
    for content in (b"x" * 101, _chunks([b"x" * 60] * 3)):
        refused = await ask(app, {}, content=content)
        assert refused.status_code == 413
        assert refused.json()["error"]["type"] == "PayloadTooLargeError"
    assert (await ask(app, {"Content-Length": "-1"})).status_code == 413
    assert len(served.requests) == 2


@pytest.mark.parametrize(
    ("inside", "most"),
    [
        (b"1", 100),
        (b"[]", 50),
        (b"{}", 10),
        (b'"a,[{"', 50),
        (rb'"\",\\"', 50),
        (b'{"":""}', 10),
    ],
)
@pytest.mark.parametrize("size", [1, 7, 1000])
async def test_a_body_with_too_many_values_is_refused_before_it_is_read(
    inside: bytes, most: int, size: int
) -> None:
    """However it is cut into chunks: reading JSON takes time by its values, not by its bytes."""
    served = Served()
    app = limited(served.app(), 10_000)
    for count, status in ((most, 200), (most + 1, 413)):
        body = b"[" + b",".join([inside] * count) + b"]"
        chunks = [body[at : at + size] for at in range(0, len(body), size)]
        assert (await ask(app, {}, content=_chunks(chunks))).status_code == status, count
    assert len(served.requests) == 1


async def test_what_is_refused_is_read_to_its_end() -> None:
    """Many clients read the response when they have sent all, and a closed connection resets it."""
    left = [b"x" * 60] * 9

    async def chunks() -> AsyncIterator[bytes]:
        while left:
            yield left.pop()

    refused = await ask(limited(Served().app(), 100), {}, content=chunks())
    assert (refused.status_code, left) == (413, [])


async def test_a_long_text_is_one_value() -> None:
    """Whatever is in it."""
    app = limited(Served().app(), 1_000_000, 10)
    body = json.dumps(['{[,\\"' * 10_000] * 3).encode()
    assert (await ask(app, {}, content=body)).status_code == 200


async def test_a_request_has_one_length() -> None:
    """A proxy that goes by the other one would take the rest of it for a request of its own."""
    served = Served()
    both = {"Content-Length": "2", "Transfer-Encoding": "chunked"}
    refused = await ask(OneLength(served.app()), both, content=b"{}")
    assert (refused.status_code, refused.headers["connection"]) == (400, "close")
    assert served.requests == []


def test_each_path_has_its_size() -> None:
    """Files and conversations may be large; who answers by URL needs nothing else."""
    size_of = ServerSettings().body_size
    sizes = [
        size_of(path).max_bytes
        for path in (
            "/apps/a/users/u/sessions",
            "/apps/a/users/u/sessions/s/artifacts",
            "/agui/a",
            "/run",
            "/apps/a/users/u/sessions/s",
            "/answers/x",
        )
    ]
    assert sizes == [20_000_000] * 3 + [3_000_000] * 2 + [2_000_000]
    assert size_of("/a2a/app").max_values * 5 == size_of("/run").max_values
    assert ServerSettings(max_body_bytes=10).body_size("/run").max_bytes == 10


@dataclass
class Clock:
    """A clock that is set."""

    now: float = 0.0

    def __call__(self) -> float:
        return self.now


async def test_a_caller_who_sends_too_much_waits() -> None:
    """For as long as the response says; others do not, and little is kept of each."""
    clock = Clock()
    rates = Rates(per_second=0.5, burst=3, now=clock, max_senders=2)
    app = limited(Served().app(), request_rates=rates)
    statuses = [(await ask(app, {})).status_code for _ in range(5)]
    assert statuses == [200, 200, 200, 429, 429]
    refused = await ask(app, {})
    assert refused.json()["error"]["type"] == "RateLimitError"
    assert (await ask(app, {}, peer="10.0.0.1")).status_code == 200
    clock.now += int(refused.headers["retry-after"])
    assert [(await ask(app, {})).status_code for _ in range(2)] == [200, 429]
    for number in range(9):
        await ask(app, {}, peer=f"10.0.0.{number}")
    assert len(rates._buckets) == 2


async def test_a_refusal_is_held_back() -> None:
    """Whoever asks again at once takes less of the server."""
    rates = Rates(per_second=1e-6, burst=1)
    app = limited(Served().app(), request_rates=rates, max_held=PATIENCE)
    assert (await ask(app, {})).status_code == 200
    held = asyncio.create_task(ask(app, {}))
    for _ in range(100):  # more turns of the loop than an answer takes
        await asyncio.sleep(0)
    assert (await ask(app, {}, peer="10.0.0.1")).status_code == 200
    assert not held.done()
    held.cancel()
    await asyncio.gather(held, return_exceptions=True)


VALUES = b"[" + b"1," * 49_999 + b"1]"
"""JSON with 50,000 values."""


@pytest.mark.parametrize(
    ("body", "answer", "owed"),
    [
        (b"x" * 999_000, 0, 0),
        (b"x" * 1_200_000, 0, 2),
        (VALUES, 0, (weight(len(VALUES), 50_000) - 1_000_000) / 100_000),
        (b"", 4_400_000, 1),
    ],
)
async def test_bytes_and_values_of_a_user_are_counted(
    body: bytes, answer: int, owed: float
) -> None:
    """What others wait for: a request is served while something is left, and later ones wait."""
    clock = Clock()
    rates = Rates(per_second=100_000, burst=1_000_000, now=clock)

    async def answering(request: Request) -> Response:
        await request.body()
        return Response(b"x" * answer)

    inner = Starlette(routes=[Route("/x", answering, methods=METHODS)])
    app = limited(inner, 2_000_000, 100_000, byte_rates=rates)
    assert (await ask(app, {}, content=body)).status_code == 200
    status = 429 if owed else 200
    assert (await ask(app, {})).status_code == status
    assert (await ask(app, {}, peer="10.0.0.1")).status_code == 200
    clock.now += owed
    assert (await ask(app, {})).status_code == status
    clock.now += 0.01  # refusals count, too
    assert (await ask(app, {})).status_code == 200


async def test_of_bodies_at_once_one_is_served() -> None:
    """A sender with many under way gets no further than the largest one; each round ends one."""
    served, clock = Served(), Clock()
    rates = Rates(per_second=1_000, burst=100, now=clock)
    app = limited(served.app(), 1_000, byte_rates=rates, max_held=1)

    async def slow() -> AsyncIterator[bytes]:
        for _ in range(4):
            yield b"x" * 200
            await asyncio.sleep(0)

    waiting = 3
    while waiting:
        sent = await asyncio.gather(*(ask(app, {}, content=slow()) for _ in range(waiting)))
        refused = [one for one in sent if one.status_code == 429]
        assert len(refused) == waiting - 1
        assert {one.json()["error"]["type"] for one in refused} <= {"RateLimitError"}
        waiting -= 1
        clock.now += max((int(one.headers["retry-after"]) for one in refused), default=0)
    assert len(served.requests) == 3


async def test_what_is_refused_and_read_all_the_same_counts() -> None:
    """Else a sender could keep the server reading for nothing."""
    rates = Rates(per_second=1_000, burst=100, now=Clock())
    app = limited(Served().app(), 100, byte_rates=rates)
    assert (await ask(app, {}, content=b"x" * 4_400)).status_code == 413
    assert rates.take("other at 127.0.0.1", 0) == pytest.approx(1.0, abs=0.2)


async def test_the_page_and_answers_cost_others_nothing() -> None:
    """A page's files and probes are free; URLs that answer have a bucket of their own."""
    rates = Rates(per_second=0.5, burst=2, now=Clock())
    free: Callable[[str], bool] = "/health".__eq__
    app = limited(Served().app(), request_rates=rates, is_free=free, answer_key=KEY)

    async def statuses(path: str) -> list[int]:
        return [(await ask(app, {}, path=path)).status_code for _ in range(3)]

    assert await statuses("/health") == [200, 200, 200]
    assert await statuses("/answers/x") == [200, 200, 429]
    assert await statuses("/list-apps") == [200, 200, 429]
    for call_id in ("a", "b"):  # what others invent behind the same proxy takes nothing from them
        token = AnswerToken(
            app="app",
            user="u",
            session="s",
            invocation_id="i",
            call_id=call_id,
            message_id="m",
            expires=time.time() + PATIENCE,
        )
        assert await statuses(f"/answers/{token.signed(KEY)}") == [200, 200, 429]


async def test_who_fails_to_authenticate_is_counted_by_address() -> None:
    """And costs nobody else anything, at the same address either."""
    served = Served()
    token = Token(user="alice", sha256=hashlib.sha256(KEY.encode()).hexdigest())
    app = Authentication(
        served.app(), [BearerTokens([token])], failures=Rates(0.5, burst=2, now=Clock())
    )
    wrong = [(await ask(app, bearer)).status_code for bearer in ({}, {"Authorization": "x"}) * 2]
    assert wrong == [401, 401, 429, 429]
    assert (await ask(app, {"Authorization": f"Bearer {KEY}"})).status_code == 200
    assert (await ask(app, {}, peer="10.0.0.1")).status_code == 401
    assert len(served.requests) == 1


@dataclass
class Unread:
    """An application with an answer of some bytes, and a client that takes a piece on request."""

    size: int
    taken: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(0))
    sent: list[Any] = field(default_factory=list[Any])

    async def ask(self, app: Any) -> int:
        """Send a request, and read what is taken; return the status."""
        scope = {"type": "http", "path": "/x", "client": ("127.0.0.1", 1), "headers": []}
        sent: list[Any] = []

        async def send(message: Any) -> None:
            sent.append(message)
            self.sent.append(message)
            if message["type"] == "http.response.body" and message.get("more_body"):
                await self.taken.acquire()

        await app(scope, cast("Any", None), send)
        return sent[0]["status"]

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Answer."""
        await Response(b"x" * self.size)(scope, receive, send)


async def test_answers_that_nobody_reads_are_few() -> None:
    """Each waits to be read piece by piece, and all of one sender are bounded."""
    size = 200_000
    unread = Unread(size)
    app = limited(unread, max_unread_bytes=2 * size)
    waiting = [asyncio.create_task(unread.ask(app)) for _ in range(2)]
    await until(lambda: len(unread.sent) == 4)  # a start and a piece of each
    assert await unread.ask(app) == 429
    unread.size = 10
    assert await unread.ask(app) == 200, "small ones wait in the connection"
    for _ in range(6):
        unread.taken.release()
    assert await asyncio.gather(*waiting) == [200, 200]
    bodies = [one["body"] for one in unread.sent if one["type"] == "http.response.body"]
    assert sum(len(one) for one in bodies if one.startswith(b"x" * 11)) == 2 * size
    assert max(map(len, bodies)) == 65_536
    unread.size, unread.taken = 3 * size, asyncio.Semaphore(100)
    assert await unread.ask(app) == 200, "one that is larger than all may be is sent alone"
    assert (app._open, app._unread) == ({}, {})


async def test_a_browser_is_told_to_run_nothing() -> None:
    """Each response has the strictest policy, unless it has one of its own."""

    async def own(_: Request) -> JSONResponse:
        return JSONResponse({}, headers={"Content-Security-Policy": "own", "Cache-Control": "x"})

    inner = Starlette(routes=[Route("/own", own), Route("/x", Served().answer)])
    app = SecurityHeaders(inner)
    headers = (await ask(app, {}, method="GET")).headers
    assert headers["content-security-policy"].startswith("default-src 'none'")
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["cache-control"] == "no-store"
    headers = (await ask(app, {}, method="GET", path="/own")).headers
    assert headers.get_list("content-security-policy") == ["own"]
    assert headers["cache-control"] == "x"
    assert headers["x-frame-options"] == "DENY"


def test_a_log_has_no_secret() -> None:
    """Neither one in the query nor a token in the path; what is shown has no control characters."""

    def shown(path: str, query: str = "") -> str:
        return shown_target({"path": path, "query_string": query.encode()})

    assert shown("/answers/eyJhbGciOi.x") == "/answers/***"
    assert shown("/mounted/answers/a/b") == "/mounted/answers/***"
    secrets = ("token", "access_token", "api-key", "apikey", "client_secret", "code", "Password")
    for name in secrets:
        assert shown("/x", f"{name}=s3cret&user_id=a") == f"/x?{name}=***&user_id=a"
    assert shown("/x", "page_token=p&after=3:e:1:0") == "/x?page_token=p&after=3:e:1:0"
    assert shown("/a\nb\x1b", "q=1%0A2") == "/a%0Ab%1B?q=1%0A2"
    assert len(shown("/" + "a" * 60_000, "b=" + "c" * 60_000)) < 5_000, "a stranger writes it"
