"""Who sends a request: tokens, headers of proxies, and servers that ask nobody."""

import hashlib
import json
import logging
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import pytest
from fastapi import Depends, FastAPI, Request
from fastapi.responses import JSONResponse
from pydantic import ValidationError
from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware

from durable_adk.errors import InvalidRequestError, PermissionDeniedError
from durable_adk.http.responses import error_body
from durable_adk.server.access import protect
from durable_adk.server.access_log import AccessLog
from durable_adk.server.caller import CurrentCaller, caller_of
from durable_adk.server.settings import ServerSettings

TOKEN = "0123456789abcdef0123456789abcdef"  # noqa: S105 - of this test
OTHER = "fedcba9876543210fedcba9876543210"


def digest(token: str) -> str:
    """What a setting has of a token."""
    return hashlib.sha256(token.encode()).hexdigest()


def settings_for(**more: Any) -> ServerSettings:
    """Alice has a token, and Olga who operates the server."""
    tokens = [
        {"user": "alice", "sha256": digest(TOKEN)},
        {"user": "olga", "sha256": digest(OTHER)},
    ]
    return ServerSettings.model_validate({"tokens": tokens, "operators": ["olga"], **more})


def small_app(settings: ServerSettings, host: str = "0.0.0.0") -> FastAPI:  # noqa: S104 - not bound
    """An application with a route of each kind that names a user."""
    app = FastAPI(dependencies=[Depends(caller_of)])

    @app.get("/who")
    async def who(caller: CurrentCaller) -> dict[str, Any]:
        return {"user": caller.user_id, "operator": caller.is_operator}

    @app.get("/users/{user_id}/things")
    async def things(user_id: str) -> str:
        return user_id

    @app.post("/run")
    async def run(body: dict[str, Any]) -> Any:
        return body

    @app.get("/list")
    async def listed(caller: CurrentCaller, user_id: str | None = None) -> str:
        return repr(caller.only(user_id))

    @app.get("/health")
    async def health() -> str:
        return "well"

    @app.exception_handler(PermissionDeniedError)
    async def denied(_: Request, error: PermissionDeniedError) -> JSONResponse:
        return JSONResponse(error_body(error), 403)

    protect(app, settings, host=host)
    return app


async def ask(
    app: FastAPI,
    path: str,
    headers: Mapping[str, str] | list[tuple[str, str]] | None = None,
    *,
    peer: str = "127.0.0.1",
    **more: Any,
) -> httpx.Response:
    """Send a request from an address."""
    transport = httpx.ASGITransport(app, client=(peer, 1))
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
        return await client.request(more.pop("method", "GET"), path, headers=headers, **more)


def bearer(token: str) -> dict[str, str]:
    """The header of a token."""
    return {"Authorization": f"Bearer {token}"}


async def test_a_token_says_whose_request_it_is() -> None:
    """Only one that is known does; the answer to others says how to authenticate."""
    app = small_app(settings_for())
    assert (await ask(app, "/who", bearer(TOKEN))).json() == {"user": "alice", "operator": False}
    assert (await ask(app, "/who", bearer(OTHER))).json() == {"user": "olga", "operator": True}
    for headers in (None, bearer(TOKEN[:-1]), bearer(digest(TOKEN)), {"Authorization": TOKEN}):
        refused = await ask(app, "/who", headers)
        assert refused.status_code == 401
        assert refused.headers["www-authenticate"] == "Bearer"
        assert refused.json()["error"]["type"] == "AuthenticationError"
    twice = [*bearer(TOKEN).items(), *bearer(OTHER).items()]
    assert (await ask(app, "/who", twice)).status_code == 401
    assert (await ask(app, "/health")).status_code == 200


@pytest.mark.parametrize("user", ["alice ", " alice", "\talice", "alice\u3000", "alice\xa0", " "])
async def test_white_space_makes_nobody_another_user(user: str) -> None:
    """Ids in keys are stripped, so an id with white space would reach another user's sessions."""
    tokens = [{"user": user, "sha256": digest(TOKEN)}]
    refused = await ask(
        small_app(ServerSettings.model_validate({"tokens": tokens})), "/who", bearer(TOKEN)
    )
    assert refused.status_code == 401
    assert "white space" in refused.json()["error"]["message"]


@pytest.mark.parametrize(
    "given",
    [
        {"answer_key": "s3cret"},
        {"tokens": [{"user": "alice", "sha256": "s3cret"}]},
        {"tokens": [{"user": "alice", "token": "s3cret"}]},
    ],
    ids=str,
)
def test_an_error_of_a_setting_quotes_no_secret(given: dict[str, Any]) -> None:
    """It names the setting, and ends in logs."""
    with pytest.raises(ValidationError) as refused:
        ServerSettings.model_validate(given)
    assert "s3cret" not in str(refused.value)


@pytest.mark.parametrize(
    "origin", ["https://a.example.com/", "a.example.com", "*", "https://A.example.com", "null"]
)
def test_an_origin_that_no_browser_sends_is_refused(origin: str) -> None:
    """It would never be the one of a request, and nobody would know why."""
    with pytest.raises(ValidationError, match="browsers send origins such as"):
        ServerSettings(origins=[origin])


async def test_probes_name_the_address_that_they_ask() -> None:
    """An orchestrator's do; they are answered beside the names that others have to use."""
    app = small_app(settings_for(hosts=["agents.example.com"]))
    probe = {"Host": "10.1.2.3:8000"}
    assert (await ask(app, "/health", probe)).status_code == 200
    assert (await ask(app, "/who", {**probe, **bearer(TOKEN)})).status_code == 403


async def test_a_user_is_refused_what_names_another() -> None:
    """In the path, in the query and in the body, under each name that routes have for it."""
    app = small_app(settings_for())
    mine, run = bearer(TOKEN), {"method": "POST"}
    assert (await ask(app, "/users/alice/things", mine)).text == '"alice"'
    assert (await ask(app, "/users/bob/things", mine)).status_code == 403
    assert (await ask(app, "/users/bob/things", bearer(OTHER))).status_code == 200
    assert (await ask(app, "/list", mine)).json() == "'alice'"
    assert (await ask(app, "/list", bearer(OTHER))).json() == "None"
    assert (await ask(app, "/list?user_id=bob", mine)).status_code == 403
    for query in ("user_id=alice&user_id=bob", "userId=bob", "user=bob"):
        assert (await ask(app, f"/users/alice/things?{query}", mine)).status_code == 403
    for name in ("userId", "user_id", "user"):
        for value in ("bob", ["bob"], {"id": "bob"}, 7):
            sent = {"userId": "alice", name: value}
            assert (await ask(app, "/run", mine, json=sent, **run)).status_code == 403
        assert (await ask(app, "/run", mine, json={name: "alice"}, **run)).status_code == 200
    headers = {**mine, "Content-Type": "application/json"}
    both = '{"userId": "alice", "userId": "bob"}'
    assert (await ask(app, "/run", headers, content=both, **run)).status_code == 403
    other = both.encode("utf-16")
    assert (await ask(app, "/run", headers, content=other, **run)).status_code in (403, 422)


async def test_a_user_does_not_change_what_all_users_share() -> None:
    """State of the app is an operator's to set in a request; users set their own."""
    app, run = small_app(settings_for()), {"method": "POST"}
    shared = {"app:price": 0}
    for body in (shared, *({name: shared} for name in ("state", "stateDelta", "state_delta"))):
        assert (await ask(app, "/run", bearer(TOKEN), json=body, **run)).status_code == 403
        assert (await ask(app, "/run", bearer(OTHER), json=body, **run)).status_code == 200
    own = {"stateDelta": {"user:name": "a", "k": 1}}
    assert (await ask(app, "/run", bearer(TOKEN), json=own, **run)).status_code == 200


async def test_a_token_is_withdrawn_without_a_restart(tmp_path: Path) -> None:
    """The file is read again when it has changed; while it is broken nobody is let in."""
    file = tmp_path / "tokens.json"
    file.write_text(json.dumps([{"user": "alice", "sha256": digest(TOKEN)}]))
    app = small_app(ServerSettings(tokens_file=file))
    assert (await ask(app, "/who", bearer(TOKEN))).status_code == 200
    file.write_text("[]")
    assert (await ask(app, "/who", bearer(TOKEN))).status_code == 401
    file.write_text('[{"user": "alice"}]')
    assert (await ask(app, "/who", bearer(TOKEN))).status_code == 503
    with pytest.raises(InvalidRequestError, match="cannot be read"):
        small_app(ServerSettings(tokens_file=tmp_path / "none"))


async def test_the_header_of_a_proxy_counts_from_the_proxy_only() -> None:
    """From any other address it says nothing, and two of them say nothing certain."""
    settings = ServerSettings(proxy_header="X-User", trusted_proxies=["10.1.0.0/16", "::1"])
    app = small_app(settings)
    header = {"X-User": "alice"}
    for peer in ("10.1.2.3", "::1", "::ffff:10.1.2.3"):
        assert (await ask(app, "/who", header, peer=peer)).json()["user"] == "alice"
    for peer in ("10.2.0.1", "127.0.0.1", "", "testclient"):
        spoofed = {**header, "X-Forwarded-For": "10.1.2.3", "Forwarded": "for=10.1.2.3"}
        assert (await ask(app, "/who", spoofed, peer=peer)).status_code == 401
    twice = [("X-User", "alice"), ("x-user", "bob")]
    assert (await ask(app, "/who", twice, peer="10.1.2.3")).status_code == 401
    assert (await ask(app, "/who", {"X-User": " "}, peer="10.1.2.3")).status_code == 401
    assert (await ask(app, "/who", {"X-User": "x" * 129}, peer="10.1.2.3")).status_code == 401
    for bad in ({}, {"trusted_proxies": ["proxy"]}):
        with pytest.raises(InvalidRequestError, match=r"TRUSTED_PROXIES|address"):
            small_app(ServerSettings.model_validate({"proxy_header": "X-User", **bad}))


async def test_the_header_of_a_proxy_is_utf_8() -> None:
    """A user is the one that a path names in percent-encoding; other bytes name nobody."""
    settings = ServerSettings(proxy_header="X-User", trusted_proxies=["10.1.2.3"])
    app, peer = small_app(settings), {"peer": "10.1.2.3"}
    for user in ("j\u00fcrgen", "\u674e", "a@b"):
        header = {"X-User": user.encode()}
        assert (await ask(app, "/who", header, **peer)).json()["user"] == user
        assert (await ask(app, f"/users/{quote(user)}/things", header, **peer)).status_code == 200
    mangled = quote("j\u00fcrgen".encode().decode("latin-1"))
    refused = await ask(app, f"/users/{mangled}/things", {"X-User": "j\u00fcrgen".encode()}, **peer)
    assert refused.status_code == 403
    latin = await ask(app, "/who", {"X-User": b"j\xfcrgen"}, **peer)
    assert latin.status_code == 401
    assert "'X-User' is not UTF-8" in latin.json()["error"]["message"]
    for space in ("\u3000", "\xa0", "\x85"):
        sent = {"X-User": f"alice{space}".encode()}
        assert (await ask(app, "/who", sent, **peer)).status_code == 401, ascii(space)


async def test_a_line_of_the_log_says_who_has_asked(caplog: pytest.LogCaptureFixture) -> None:
    """By the id that was authenticated; never a token, and nobody where nobody is known."""
    app = small_app(settings_for())
    app.add_middleware(AccessLog)
    caplog.set_level(logging.INFO, logger="durable_adk.server.access_log")
    await ask(app, "/who", bearer(TOKEN))
    await ask(app, "/who", bearer("unknown"))
    names = ("token", "jwt", "authorization", "auth", "sig", "pass", "x_api_key", "db-pwd")
    await ask(app, "/who?" + "&".join(f"{name}=s3cret" for name in names), bearer(OTHER))
    lines = [vars(record) for record in caplog.records if record.message == "http.request"]
    found = [(line["status"], line.get("user_id")) for line in lines]
    assert found == [(200, "alice"), (401, None), (200, "olga")]
    said = repr(lines)
    assert all(secret not in said for secret in (TOKEN, OTHER, "unknown", "s3cret"))


async def test_off_the_loopback_somebody_must_be_asked() -> None:
    """Without authentication a server is for this machine only, and the error says what to set."""
    for host in ("0.0.0.0", "::", "10.0.0.1", "agents.example.com"):  # noqa: S104 - refused
        with pytest.raises(InvalidRequestError, match="DURABLE_ADK_SERVER_TOKENS_FILE"):
            small_app(ServerSettings(), host)
    app = small_app(ServerSettings(), "127.0.0.1")
    for peer in ("127.0.0.1", "127.1.2.3", "::1", "::ffff:127.0.0.1"):
        assert (await ask(app, "/who", peer=peer)).json() == {"user": None, "operator": True}


async def test_without_authentication_nobody_else_is_served() -> None:
    """Wherever the application is mounted, and whatever name a request has; but for probes."""
    app = small_app(ServerSettings(), "127.0.0.1")
    for peer in ("10.1.2.3", "::ffff:10.1.2.3", "fd00::1", "", "testclient"):
        refused = await ask(app, "/who", {"Host": "localhost"}, peer=peer)
        assert refused.status_code == 403, peer
        assert "DURABLE_ADK_SERVER_TOKENS_FILE" in refused.json()["error"]["message"]
        assert (await ask(app, "/health", peer=peer)).status_code == 200


@pytest.mark.parametrize(
    "header", ["X-Forwarded-For: 127.0.0.1", "Forwarded: for=127.0.0.1", "X-Real-IP: ::1"]
)
async def test_without_authentication_no_proxy_is_served(header: str) -> None:
    """Its peer may be anybody, also if the server takes the peer's address from the header."""
    app = small_app(ServerSettings(), "127.0.0.1")
    believing: Any = ProxyHeadersMiddleware(app, trusted_hosts="*")  # as uvicorn is told to be
    name, _, text = header.partition(": ")
    for peer, asked in (("127.0.0.1", app), ("10.1.2.3", believing)):
        refused = await ask(asked, "/who", {name: text}, peer=peer)
        assert refused.status_code == 403, peer
        assert "DURABLE_ADK_SERVER_PROXY_HEADER" in refused.json()["error"]["message"]
        assert (await ask(asked, "/health", {name: text}, peer=peer)).status_code == 200
    served = await ask(small_app(settings_for()), "/who", {name: text, **bearer(TOKEN)})
    assert served.status_code == 200


async def test_the_environment_says_who_may(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lists and objects are JSON in it; a token itself is nowhere."""
    tokens = [{"user": "alice", "sha256": digest(TOKEN)}]
    monkeypatch.setenv("DURABLE_ADK_SERVER_TOKENS", json.dumps(tokens))
    monkeypatch.setenv("DURABLE_ADK_SERVER_HOSTS", '["agents.example.com"]')
    settings = ServerSettings()
    assert settings.tokens[0].user == "alice"
    assert "agents.example.com" in settings.hosts_of("10.0.0.1")
    assert TOKEN not in repr(settings) + json.dumps(dict(os.environ))


def test_every_setting_of_access_is_described() -> None:
    """docs/use/server.md has each variable, and none that there is not."""
    text = (Path(__file__).parents[2] / "docs" / "use" / "server.md").read_text()
    described = {name.lower() for name in re.findall(r"DURABLE_ADK_SERVER_(\w+)", text)} - {""}
    shared = {"answer_key", "push_hosts"}  # with the workers, under their names
    assert ServerSettings.model_fields.keys() - shared <= described
    assert described <= ServerSettings.model_fields.keys()
