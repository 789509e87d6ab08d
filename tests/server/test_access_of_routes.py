"""Another user's session is reached by no route, of those that there are (S1)."""

import asyncio
import json
import re
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast
from urllib.parse import quote, unquote_to_bytes

import httpx
import pytest
from fastapi import FastAPI
from fastapi.routing import APIRoute, RouteContext, iter_route_contexts
from google.genai import types
from pydantic import SecretStr
from starlette.routing import Mount, Route
from temporalio.client import Client

from durable_adk.agents import LlmAgent
from durable_adk.apps import App
from durable_adk.client.temporal_backend import TemporalBackend
from durable_adk.errors import InvalidRequestError, StoreUnavailableError
from durable_adk.events import Event
from durable_adk.json_values import MAX_PROBLEMS
from durable_adk.models import ScriptedModel
from durable_adk.runners import InMemoryRunner
from durable_adk.server.app import app as server
from durable_adk.server.caller import USER_NAMES, caller_of
from durable_adk.server.routes import health
from durable_adk.server.routes.errors import ErrorResponse
from durable_adk.server.settings import ServerSettings
from durable_adk.sessions import InMemorySessionService
from durable_adk.tools.long_running_tool import LongRunningFunctionTool
from durable_adk.wire.messages import MAX_BYTES
from tests.server.test_authentication import OTHER, TOKEN, bearer, settings_for
from tests.support.http_server import message as body_of_run, placed
from tests.support.malformed import HOSTILE, OLGAS, bodies, wrong_enumerations
from tests.support.scripts import call
from tests.support.waiting import PATIENCE, stays, until

CARD = "/a2a/{app_name}/.well-known/agent-card.json"
PUBLIC = {
    "/": "the page's files",
    "/health": "for probes",
    "/ready": "for probes",
    "/dev-ui/assets/config/runtime-config.json": "a file of ADK's page",
    "/answers/{token}": "the token says whose call it answers",
    CARD: "says how to authenticate, and names no tools",
}
IMPERSONAL = {
    "/list-apps": "names of apps: see test_nobody_adds_an_app_to_those_of_others",
    "/version": "says what runs",
    "/caller": "says who the sender is: see test_a_sender_is_told_who_it_is",
    "/config/telemetry": "says the same to all",
    "/apps/{app_name}/app-info": "describes the app",
    "/apps/{app_name}/graph": "describes the app",
    "/dev/apps/{app_name}/build_graph": "describes the app",
    "/dev/apps/{app_name}/build_graph_image": "describes the app",
    "/dev/apps/{app_name}/graph": "describes the app",
    **dict.fromkeys(
        (
            "/a2a/{app_name}",
            "/a2a/{app_name}/message:send",
            "/a2a/{app_name}/message:stream",
            "/a2a/{app_name}/tasks",
            "/a2a/{app_name}/extendedAgentCard",
        ),
        "the tasks are those of the sender: see test_another_users_task_is_none",
    ),
    "/agui/{app_name}": "sessions are those of the sender: tried by test_agui.py",
    "/openapi.json": "describes the routes",
}
"""Routes that name no user, and have nothing of any."""
ENDLESS = {"/changes"}
"""Streams of a sender's own things, without an end: tried by test_invocations.py."""
INVOCATION = "bobs-invocation"
TASK_NAMES = ("invocation_id", "id")
"""How routes name an invocation."""


def ask(text: str) -> None:
    """Ask somebody, who answers later."""


ORIGIN = "https://app.example.com"


@pytest.fixture
async def app() -> AsyncIterator[FastAPI]:
    """A server with tokens for Alice and for an operator, and a session of Bob."""
    model = ScriptedModel(replies=[call("ask", text="bobs secret")])
    agent = LlmAgent(name="agent", model=model, tools=[LongRunningFunctionTool(ask)])
    sessions = InMemorySessionService()
    async with InMemoryRunner(app=App(name="app", root_agent=agent)) as runner:
        sessions = runner.session_service
        await sessions.create_session(app_name="app", user_id="bob", session_id="s")
        async for _ in runner.run_async(
            user_id="bob", session_id="s", new_message="hi", invocation_id=INVOCATION
        ):
            pass
        known = settings_for().model_dump(include={"tokens", "operators"})
        settings = ServerSettings.model_validate(
            {**known, "host": "0.0.0.0", "origins": [ORIGIN]}  # noqa: S104 - not bound
        )
        yield server(
            session_service=sessions,
            client=cast("Any", None),  # nobody gets that far
            settings=settings,
        )


def routes(app: FastAPI) -> Iterator[tuple[str, str, RouteContext]]:
    """Method, path and route of all that the application serves."""
    for route in iter_route_contexts(app.routes):
        if isinstance(route.original_route, Mount):
            assert route.path == "/page", f"{route.path}: another application is mounted there"
            continue
        assert isinstance(route.original_route, Route), f"{route} cannot be looked into"
        for method in sorted(route.methods or ()):
            if method != "HEAD":
                yield method, route.path or "", route


def filled(path: str, user: str) -> str:
    """A path with Bob's things, or with a user's."""
    values = {"app_name": "app", "app": "app", "session_id": "s", "session": "s"}
    values |= dict.fromkeys(USER_NAMES, user) | dict.fromkeys(TASK_NAMES, INVOCATION)
    values["event_id"] = f"{INVOCATION}.1"
    for name, value in values.items():
        path = path.replace(f"{{{name}}}", value)
    return path.replace("{", "").replace("}", "")


def body_of(app: FastAPI, method: str, path: str) -> set[str]:
    """The fields of a route's body, by the description of the routes."""
    described = app.openapi()
    found: Any = described["paths"].get(path, {}).get(method.lower(), {})
    schema = found.get("requestBody", {}).get("content", {}).get("application/json", {})
    return {name for one in _schemas(described, schema) for name in one.get("properties", ())}


def _schemas(described: Any, schema: Any) -> Iterator[dict[str, Any]]:
    """The objects that a schema may be."""
    schema = schema.get("schema", schema)
    if name := schema.get("$ref"):
        schema = described["components"]["schemas"][name.rpartition("/")[2]]
    yield schema
    for one in (*schema.get("anyOf", ()), *schema.get("allOf", ()), *schema.get("oneOf", ())):
        yield from _schemas(described, one)


def queries(route: Any) -> set[str]:
    """The names of a route's query parameters."""
    found = route.dependant.query_params
    for inner in route.dependant.dependencies:
        found = [*found, *inner.query_params]
    return {one.alias for one in found}


async def send(  # noqa: PLR0917 - the first four are those of any request
    app: FastAPI,
    method: str,
    path: str,
    token: str | None,
    body: Any = None,
    text: str | None = None,
) -> httpx.Response:
    """Send a request; one that would be answered by a stream is refused before.

    Its body is a value, or the text of one.
    """
    transport = httpx.ASGITransport(app, raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
        more: dict[str, Any] = {} if body is None or method == "GET" else {"json": body}
        headers = {"A2A-Version": "1.0"} | (bearer(token) if token else {})
        if text is not None:
            more, headers = {"content": text}, {**headers, "Content-Type": "application/json"}
        return await client.request(method, path, headers=headers, **more)


async def test_nobody_is_served_without_a_token(app: FastAPI) -> None:
    """But for the routes that are open to all, each for a reason."""
    for method, path, _ in routes(app):
        response = await send(app, method, filled(path, "bob"), None)
        if path in PUBLIC:
            assert "bobs" not in response.text, path
        else:
            assert response.status_code == 401, (method, path, response.text)


async def test_nobody_fills_the_memory_without_a_token(app: FastAPI) -> None:
    """No route waits for the body of who is not known, and none for one where none belongs."""
    app.state.services.settings.answer_key = SecretStr("k" * 32)

    async def endless() -> AsyncIterator[bytes]:
        yield b"{"
        await asyncio.Event().wait()

    transport = httpx.ASGITransport(app, raise_app_exceptions=False)
    headers = {"Content-Type": "application/json"}
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
        for method, path, _ in routes(app):
            known = bearer(TOKEN) if (method, path) == ("GET", "/invocations") else {}
            async with asyncio.timeout(PATIENCE):
                await client.request(
                    method, filled(path, "bob"), headers=headers | known, content=endless()
                )


@pytest.mark.parametrize(
    ("method", "path"),
    [("POST", "/invocations"), ("DELETE", "/apps/app/users/alice/sessions/s"), ("POST", "/a2a/x")],
)
async def test_a_client_that_goes_away_in_its_body_is_no_error(
    app: FastAPI, method: str, path: str
) -> None:
    """The log of requests has a status of its own for it, whoever reads the body."""
    headers = {"host": "localhost", "content-type": "application/json", **bearer(TOKEN)}
    listed = [(name.lower().encode(), text.encode()) for name, text in headers.items()]
    scope = {"type": "http", "method": method, "path": path, "headers": listed, "query_string": b""}
    sent = list[Any]()

    async def receive() -> Any:
        return {"type": "http.disconnect"}

    async def send(message: Any) -> None:
        sent.append(message)

    await app(scope, receive, send)
    assert sent[0]["status"] == 499


@pytest.mark.thorough
async def test_another_users_session_is_reached_by_no_route(app: FastAPI) -> None:
    """By path, body, query or invocation; a route that names none must be listed here."""
    tried = 0
    for method, path, route in routes(app):
        if path in PUBLIC or path in IMPERSONAL:
            continue
        assert isinstance(route.original_route, APIRoute), (
            f"{path}: the checks stand before APIRoutes only"
        )
        assert any(one.call is caller_of for one in route.dependant.dependencies), path
        place = filled(path, "bob")
        named = set(USER_NAMES) & body_of(app, method, path)
        if set(USER_NAMES) & set(route.param_convertors):
            response = await send(app, method, place, TOKEN, {})
            assert response.status_code == 403, (method, path, response.text)
            # Nobody is to be refused for another reason.
            mine = await send(app, method, filled(path, "olga"), OTHER, {})
            assert mine.status_code != 403, (method, path)
        elif named:
            for name in USER_NAMES:
                response = await send(app, method, place, TOKEN, {name: "bob", "appName": "app"})
                assert response.status_code == 403, (method, path, response.text)
        elif set(TASK_NAMES) & set(route.param_convertors):
            response = await send(app, method, place, TOKEN, {})
            missing = await send(app, method, place.replace(INVOCATION, "none"), TOKEN, {})
            assert response.status_code == missing.status_code == 404, (method, path)
            assert response.text == missing.text.replace("none", INVOCATION)
        elif "user_id" in queries(route):
            response = await send(app, method, f"{place}?user_id=bob", TOKEN)
            assert response.status_code == 403, (method, path, response.text)
            if path not in ENDLESS:
                own = await send(app, method, place, TOKEN)
                assert "bob" not in own.text.replace(INVOCATION, ""), (method, path, own.text)
        else:
            pytest.fail(f"{method} {path}: say in IMPERSONAL why nobody else's data is there")
        assert "bobs secret" not in response.text
        tried += 1
    assert tried > 15


SPELLINGS = [
    *("bob", "%62ob", "%62%6F%62", "%2562ob", "BOB", "bo%00b", "bob%00", "bob%2500"),
    *("bob%20", "%20bob", "bob%09", "bob%C2%A0", "bob%E3%80%80", "bob%C2%AD", "bob%E2%80%8B"),
    *("bob%2F", "%2Fbob", "alice%2F..%2Fbob", "alice%2Fbob", "%2E%2E%2Fbob", "bob%5C", "bob%3B"),
    *("%EF%BD%82%EF%BD%8F%EF%BD%82", "%d0%acob", "b%CC%80ob", "bob%FF", "bob%ED%A0%80", "alice%20"),
]
"""Of Bob's id and of what may be taken for it, in a URL."""


@pytest.mark.parametrize("target", ["/apps/app/users/{}/sessions/s", "/pending?user_id={}"])
async def test_no_spelling_of_a_user_is_anybody_elses(app: FastAPI, target: str) -> None:
    """Encoded once or twice, with blanks, separators or letters that look or compare alike."""
    for spelling in SPELLINGS:
        response = await send(app, "GET", target.format(spelling), TOKEN)
        assert response.status_code in (400, 403, 404), (spelling, response.text)
        assert "bobs" not in response.text


async def test_a_user_who_is_called_alike_is_another(app: FastAPI) -> None:
    """Ids are compared as they are, by the same rule wherever they come from."""
    settings = {"proxy_header": "X-User", "trusted_proxies": ["127.0.0.1"], "burst": 1000}
    other = server(
        session_service=app.state.services.session_service,
        client=cast("Any", None),
        settings=ServerSettings.model_validate(settings),
    )
    transport = httpx.ASGITransport(other)
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
        for name in map(unquote_to_bytes, SPELLINGS):
            for path in ("/apps/app/users/bob/sessions/s", f"/invocations/{INVOCATION}"):
                response = await client.get(path, headers={"X-User": name})
                is_bob = name.strip(b" \t") == b"bob"
                assert (response.status_code == 200) is is_bob, (name, path, response.text)


@pytest.mark.parametrize("path", ["/invocations", "/pending", "/invocations/counts"])
async def test_a_list_has_a_users_own_things(app: FastAPI, path: str) -> None:
    """Without a user in the query it is of the sender's; an operator's is of all."""
    own = await send(app, "GET", path, TOKEN)
    everybody = await send(app, "GET", path, OTHER)
    assert own.status_code == everybody.status_code == 200
    assert "bob" not in own.text
    assert '":1' not in own.text
    assert "bob" in everybody.text or '":1' in everybody.text


async def test_a_sender_is_told_who_it_is(app: FastAPI) -> None:
    """By its token only, whatever else it says; whether it is an operator decides what it is shown.

    Where nobody is asked who they are, everybody is an operator without an id.
    """
    for path in ("/caller", "/caller?user_id=alice"):
        own = await send(app, "GET", path, TOKEN)
        assert own.json() == {"userId": "alice", "isOperator": False}
    assert (await send(app, "GET", "/caller?user_id=bob", TOKEN)).status_code == 403
    operator = await send(app, "GET", "/caller?user_id=bob", OTHER)
    assert operator.json() == {"userId": "olga", "isOperator": True}
    settings = ServerSettings(host="127.0.0.1")
    services = {"session_service": app.state.services.session_service, "settings": settings}
    anybody = server(client=cast("Any", None), **services)
    assert (await send(anybody, "GET", "/caller", None)).json() == {"isOperator": True}


async def test_a_page_of_a_listed_origin_may_send_all_headers(app: FastAPI) -> None:
    """Each header that a route reads; a browser asks before it sends one."""
    operations = [one for path in app.openapi()["paths"].values() for one in path.values()]
    read = {
        parameter["name"]
        for operation in operations
        for parameter in operation.get("parameters", ())
        if parameter["in"] == "header"
    }
    assert len(read) > 2
    transport = httpx.ASGITransport(app)
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
        asked = {"Access-Control-Request-Method": "POST", "Origin": ORIGIN}
        asked["Access-Control-Request-Headers"] = ",".join({"authorization", *read})
        allowed = await client.options("/run", headers=asked)
        assert allowed.status_code == 200, allowed.text
        foreign = await client.options("/run", headers={**asked, "Origin": "https://evil.com"})
        assert foreign.status_code == 400


@pytest.mark.thorough
async def test_the_description_says_what_is_sent(app: FastAPI) -> None:
    """Streams are no JSON, and an error has the form that all of them have."""
    paths, streams = app.openapi()["paths"], set[str]()
    for path, operations in paths.items():
        for operation in operations.values():
            responses = operation["responses"]
            for code, response in responses.items():
                if code[0] == "2":
                    streams |= {path} if "text/event-stream" in response["content"] else set()
                elif (path, code) != ("/ready", "503"):
                    assert list(response["content"]) == ["application/json"], path
                    shape = response["content"]["application/json"]["schema"]
                    assert shape["$ref"].endswith("/ErrorResponse"), path
            assert "default" in responses, path
            assert re.fullmatch(r"[A-Z][a-z].* .*\.", operation["summary"]), path
            assert not re.search(r"\([A-Z]+-?\d", f"{operation}"), path
    found = {path for path in paths if path.endswith(("/events", "/run_sse", "/changes"))}
    assert streams == found | {"/agui/{app_name}"}
    assert app.openapi()["info"]["description"]
    assert app.openapi() is app.openapi()
    refused = (await send(app, "POST", "/run", OTHER, {})).json()
    assert ErrorResponse.model_validate(refused).error.field == "appName"


@pytest.mark.thorough
def test_the_description_says_how_to_authenticate() -> None:
    """By each way that is set, and for each route but the public ones; by none if none is."""

    def described(**settings: Any) -> dict[str, Any]:
        return server(
            session_service=InMemorySessionService(),
            client=cast("Any", None),
            apps=["app"],
            settings=ServerSettings.model_validate(settings),
        ).openapi()

    known = settings_for().model_dump(include={"tokens"})
    oidc = {"issuer": "https://id.example.com/", "audience": "agents"}
    proxy = {"proxy_header": "X-User", "trusted_proxies": ["10.0.0.1"]}
    found = described(**known, **proxy, oidc=oidc)
    schemes = found["components"]["securitySchemes"]
    assert schemes["bearer"] == {"type": "http", "scheme": "bearer"}
    assert schemes["oidc"] == {
        "type": "openIdConnect",
        "openIdConnectUrl": "https://id.example.com/.well-known/openid-configuration",
    }
    assert (schemes["proxy"]["in"], schemes["proxy"]["name"]) == ("header", "X-User")
    for path, operations in found["paths"].items():
        for operation in operations.values():
            named = [name for one in operation.get("security", ()) for name in one]
            assert sorted(named) == ([] if path in PUBLIC else ["bearer", "oidc", "proxy"]), path
    assert list(described(**known)["components"]["securitySchemes"]) == ["bearer"]
    assert "securitySchemes" not in described()["components"]


async def test_nobody_adds_an_app_to_those_of_others(app: FastAPI) -> None:
    """A user sees the apps of their own sessions, and begins none in one that nobody has used."""
    assert (await send(app, "GET", "/list-apps", TOKEN)).json() == []
    assert (await send(app, "GET", "/list-apps", OTHER)).json() == ["app"]
    body = {"userId": "alice", "sessionId": "s", "createSession": True}
    body |= {"newMessage": {"parts": [{"text": "hi"}]}}
    message = {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "hi"}]}
    front = {"threadId": "t", "runId": "r", "messages": [], "tools": [], "context": []}
    for path, sent in [
        ("/apps/evil/users/alice/sessions", {}),
        ("/apps/evil/users/alice/sessions/s", {}),
        ("/invocations", body | {"appName": "evil"}),
        ("/run", body | {"appName": "evil"}),
        ("/run_sse", body | {"appName": "evil"}),
        ("/agui/evil", front | {"state": {}, "forwardedProps": {}}),
        ("/a2a/evil", {"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": message}),
        ("/a2a/evil/message:send", {"message": message}),
    ]:
        refused = await send(app, "POST", path, TOKEN, sent)
        assert refused.status_code == 404, (path, refused.text)
        assert refused.json()["error"]["type"] == "UnknownAppError"
    for name, status in (("evil", 404), ("app", 200)):
        assert (await send(app, "GET", CARD.format(app_name=name), None)).status_code == 401
        assert (await send(app, "GET", CARD.format(app_name=name), TOKEN)).status_code == status
    assert (await send(app, "GET", "/list-apps", OTHER)).json() == ["app"]
    mine = await send(app, "POST", "/apps/app/users/alice/sessions", TOKEN, {})
    assert mine.status_code == 200, mine.text
    assert (await send(app, "GET", "/list-apps", TOKEN)).json() == ["app"]
    new = await send(app, "POST", "/apps/new/users/olga/sessions", OTHER, {})
    assert new.status_code == 200, new.text
    assert (await send(app, "GET", "/list-apps", TOKEN)).json() == ["app"]


async def test_cards_are_counted_and_tell_of_no_other_app() -> None:
    """For all where the apps are set; a card of another name does not say which there are."""
    known = settings_for().model_dump(include={"tokens"})
    app = server(
        session_service=InMemorySessionService(),
        client=cast("Any", None),
        apps=["desk"],
        settings=ServerSettings.model_validate({**known, "requests_per_second": 0.01, "burst": 2}),
    )
    asked = [
        await send(app, "GET", CARD.format(app_name=name), None) for name in ("desk", "x", "x")
    ]
    assert [one.status_code for one in asked] == [200, 404, 429]
    assert "desk" not in asked[1].text
    known_to = await send(app, "POST", "/apps/x/users/alice/sessions", TOKEN, {})
    assert "desk" in known_to.text


async def test_apps_that_are_being_loaded_are_waited_for(app: FastAPI) -> None:
    """A page without one does not ask again; one that waits for the server waits longer."""
    services = app.state.services
    services.loaded.clear()
    assert (await send(app, "GET", "/ready", None)).json() == {
        "status": "unavailable",
        "reason": "The agents are being loaded.",
    }
    asking = asyncio.create_task(send(app, "GET", "/list-apps", OTHER))
    await stays(lambda: not asking.done())
    services.apps["desk"] = None
    services.loaded.set()
    assert (await asking).json() == ["desk"]


async def test_probes_may_ask_without_a_body(app: FastAPI) -> None:
    """HEAD has the status that GET has, as HTTP wants it; some load balancers send nothing else."""
    app.state.services.loaded.clear()
    for path, status in (("/health", 200), ("/ready", 503)):
        for method in ("HEAD", "GET"):
            assert (await send(app, method, path, None)).status_code == status, (method, path)


async def test_a_missing_session_is_made_over_http(app: FastAPI) -> None:
    """The error names what a client of the server can do."""
    body = {"appName": "app", "userId": "bob", "sessionId": "none"}
    body |= {"newMessage": {"parts": [{"text": "hi"}]}}
    missing = await send(app, "POST", "/invocations", OTHER, body)
    message = missing.json()["error"]["message"]
    assert missing.status_code == 404
    assert "createSession over HTTP" in message


async def test_a_wrong_method_is_told_the_right_ones(app: FastAPI) -> None:
    """As HTTP wants it."""
    response = await send(app, "PUT", "/run", OTHER, {})
    assert (response.status_code, response.headers["allow"]) == (405, "POST")


async def test_an_error_names_what_the_sender_wrote(app: FastAPI) -> None:
    """The body, a field of it, or a parameter; and nothing of how the server reads it."""
    versions = "/apps/app/users/olga/sessions/s/artifacts/a/versions"
    for method, path, body, field, message in [
        ("POST", "/run", "{", "body", "The body is not JSON: Expecting property name"),
        ("POST", "/run", "[]", "body", "body: "),
        ("POST", "/run", '{"appName": 1}', "appName", "appName: "),
        ("GET", f"{versions}/abc", "", "version_id", "version_id: "),
        ("GET", "/invocations?status=foo", "", "status", "status: "),
    ]:
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            headers = {**bearer(OTHER), "Content-Type": "application/json"}
            refused = await client.request(method, path, content=body, headers=headers)
        error = refused.json()["error"]
        assert (refused.status_code, error["field"]) == (422, field), (path, refused.text)
        assert error["message"].startswith(message), error


async def test_no_name_has_a_nul_character(app: FastAPI) -> None:
    """PostgreSQL takes none, so each route refuses one wherever it names something."""
    for method, path, route in routes(app):
        named = [
            re.sub(rf"{{{name}(:path)?}}", "a%00", path) for name in route.param_convertors
        ] + [
            f"{path}?{name}=a%00"
            for name in (queries(route) if hasattr(route, "dependant") else ())
        ]
        for one in named:
            response = await send(app, method, filled(one, "olga"), OTHER, {})
            assert response.status_code == 400, (method, one, response.text)
            assert response.json()["error"]["type"] == "InvalidRequestError"


def lose(order: str) -> None:
    """Fail."""
    raise KeyError(order)


async def everything(http: httpx.AsyncClient, known: list[Any], session: str) -> str:
    """What Alice gets from all routes but endless ones, of a session with an invocation."""
    found, tried = list[str](), 0
    http.headers.update(bearer(TOKEN) | {"A2A-Version": "1.0"})
    run = {"threadId": session, "runId": f"e-{session}", "tools": [], "context": [], "state": {}}
    bodies = {
        "/agui/{app_name}": {**run, "messages": [{"id": "1", "role": "user", "content": "go"}]}
    }
    for method, path, _ in known:
        is_endless = path in ENDLESS or path.endswith("{session_id}/events")
        if method not in ("GET", "POST") or is_endless:
            continue
        place = filled(path, "alice").replace(INVOCATION, f"e-{session}")
        place = place.replace("/sessions/s", f"/sessions/{session}").replace(
            "session/s", f"session/{session}"
        )
        body = {} if method == "GET" else {"json": bodies.get(path, {})}
        response = await http.request(method, place, params={"user_id": "alice"}, **body)
        assert response.status_code < 500 or path == "/ready", (path, response.text)
        found.append(response.text)
        tried += response.status_code == 200
    assert tried > 20
    return "".join(found)


@pytest.mark.thorough
async def test_prompts_places_and_links_are_for_operators(client: Client, tmp_path: Path) -> None:
    """For everybody where no users are configured; a user learns what happened, and no more."""
    model = ScriptedModel(replies=lambda _: call("lose", order="7"))
    agent = LlmAgent(name="agent", model=model, instruction="PROMPT", tools=[lose])
    place_of_error = f"{__file__}:{lose.__code__.co_firstlineno + 2} in lose"
    told: dict[str, str] = {}
    async with placed(client, tmp_path, App(name="app", root_agent=agent)) as place:
        settings = {"temporal_ui": "http://temporal.test"}
        apps = [App(name="app", root_agent=agent)]
        known = settings_for().model_dump(include={"tokens", "operators"})
        private = await place.server(apps=apps, settings=settings | known)
        for who, http in (
            ("nobody", await place.server(apps=apps, settings=settings)),
            ("user", private),
            ("operator", private),
        ):
            token = {"user": TOKEN, "operator": OTHER}.get(who)
            http.headers.update(bearer(token) if token else {})
            await http.post("/apps/app/users/alice/sessions", json={"sessionId": who})
            body = body_of_run("go", userId="alice", sessionId=who, invocationId=f"e-{who}")
            ran = await http.post("/run", json=body)
            streamed = await http.post("/run_sse", json=body)
            name = f"/invocations/e-{who}"
            trace = f"/dev/apps/app/debug/trace/session/{who}"
            seen = [ran, streamed, await http.get(name), await http.get(trace)]
            assert [one.text.count("KeyError") > 0 for one in seen] == [True] * 4
            assert [place_of_error in one.text for one in seen] == [who != "user"] * 4
            assert ("http://temporal.test" in seen[2].text) == (who != "user")
            assert ("workflowId" in seen[2].text) == (who != "user")
            others = [
                await http.get(f"{name}/{part}") for part in ("events?follow=false", "attempts")
            ]
            others += [await http.get(f"/apps/app/{one}") for one in ("app-info",)]
            others += [await http.get(f"/dev/apps/app/{one}") for one in ("build_graph", "graph")]
            others += [
                await http.get(path) for path in ("/invocations", "/list-apps?detailed=true")
            ]
            assert [one.status_code for one in others] == [200] * len(others)
            told[who] = "".join(one.text for one in [*seen, *others])
        all_routes = server(session_service=place.sessions, client=client, apps=apps)
        told["user"] += await everything(private, list(routes(all_routes)), "user")
    assert [who for who, text in told.items() if "PROMPT" in text] == ["nobody", "operator"]
    assert "http://temporal.test" not in told["user"]
    assert __file__ not in told["user"]
    assert all("Fail." in text for text in told.values()), "the shape of an app is for users"


def test_an_application_for_others_asks_who_they_are() -> None:
    """Also where it is made for another program to serve; the error names a setting."""
    settings = ServerSettings(host="10.0.0.1")
    with pytest.raises(InvalidRequestError, match="DURABLE_ADK_SERVER_TOKENS_FILE"):
        server(
            session_service=InMemorySessionService(), client=cast("Any", None), settings=settings
        )


async def test_a_proxy_is_known_by_its_connection(client: Client, tmp_path: Path) -> None:
    """The process that serves believes no header that says where a request is from."""
    agent = LlmAgent(name="agent", model=ScriptedModel())
    async with placed(client, tmp_path, agent) as place:
        header = {"proxy_header": "X-User"}
        named = {"X-User": "bob", "X-Forwarded-For": "10.1.1.1", "Forwarded": "for=10.1.1.1"}
        far = await place.server(settings={**header, "trusted_proxies": ["10.0.0.0/8"]})
        assert (await far.get("/list-apps", headers=named)).status_code == 401
        near = await place.server(settings={**header, "trusted_proxies": ["127.0.0.1"]})
        assert (await near.get("/list-apps", headers=named)).status_code == 200
        assert (await near.get("/list-apps")).status_code == 401


async def test_a_value_of_a_wrong_type_is_refused_with_its_place(app: FastAPI) -> None:
    """Also where google-genai has an enumeration, whose validator raises no error of validation."""
    sessions = "/apps/app/users/olga/sessions"
    ids = {"appName": "app", "userId": "olga", "sessionId": "s"}
    tried = [
        (path, f"newMessage.{place}", {**ids, "newMessage": content})
        for place, content in wrong_enumerations(types.Content)
        for path in ("/run", "/run_sse", "/invocations")
    ]
    tried += [
        (f"{sessions}/s/artifacts", f"artifact.{place}", {"filename": "f", "artifact": part})
        for place, part in wrong_enumerations(types.Part)
    ]
    tried += [
        (sessions, f"events.0.{place}", {"events": [{"author": "a", **event}]})
        for place, event in wrong_enumerations(Event)
    ]
    assert len(tried) > 50
    for path, field, body in tried:
        refused = await send(app, "POST", path, OTHER, body)
        assert refused.status_code == 422, (field, refused.text)
        assert refused.json()["error"]["field"] == field, refused.text


@pytest.mark.parametrize("count", [500, 5_000])
@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/run", {"appName": "app", "userId": "olga", "newMessage": {"parts": "many"}}),
        ("/apps/app/users/olga/sessions", {"events": "many"}),
        ("/agui/app", {"threadId": "s", "runId": "r", "messages": "many"}),
    ],
)
async def test_a_refusal_is_small(app: FastAPI, path: str, body: Any, count: int) -> None:
    """Of many problems few are reported, and nothing of what was sent."""
    sent = "never-to-be-sent-back"
    body = json.loads(json.dumps(body).replace('"many"', json.dumps([sent] * count)))
    refused = await send(app, "POST", path, OTHER, {**body, "x" * 10_000: sent})
    assert refused.status_code == 422
    assert refused.json()["error"]["field"]
    assert len(refused.json()["detail"]) == (MAX_PROBLEMS if count == 500 else 1)
    assert len(refused.content) < 10_000
    assert sent not in refused.text


BIG = "x" * (MAX_BYTES - 1_000)


@pytest.mark.parametrize("path", ["/apps/app/users/olga/sessions/s", "/run", "/invocations"])
async def test_all_routes_that_write_refuse_what_a_message_may_not_have(
    app: FastAPI, path: str
) -> None:
    """A value of more than 1 MB; also a state that grows to it by small steps."""
    sessions = "/apps/app/users/olga/sessions"
    large, ids = {"a": BIG + BIG}, {"appName": "app", "userId": "olga", "sessionId": "s"}
    assert (await send(app, "POST", f"{sessions}/s", OTHER, large)).status_code == 413
    assert (await send(app, "POST", sessions, OTHER, {"state": large})).status_code == 413
    event = {"author": "a", "content": {"parts": [{"text": BIG + BIG}]}}
    assert (await send(app, "POST", sessions, OTHER, {"events": [event]})).status_code == 413
    made = await send(app, "POST", sessions, OTHER, {"sessionId": "s", "state": {"user:a": BIG}})
    assert made.status_code == 200
    method = "PATCH" if path.startswith(sessions) else "POST"
    message = {"newMessage": {"parts": [{"text": BIG}]}}
    refused = await send(app, method, path, OTHER, {**ids, **message, "stateDelta": {"b": BIG}})
    assert refused.status_code == 413, refused.text
    refused = await send(app, "POST", sessions, OTHER, {"state": {"user:b": BIG}})
    assert refused.status_code == 413, "beside what the user's other sessions have"
    small = await send(app, "PATCH", f"{sessions}/s", OTHER, {"stateDelta": {"b": "x"}})
    assert small.status_code == 200


async def test_a_list_of_sessions_has_pages(app: FastAPI) -> None:
    """By number and by size: each session has the user's state again."""
    sessions = "/apps/app/users/olga/sessions"
    for name in ("a", "b", "c", "d"):
        state = {"user:a": BIG} if name == "a" else {}
        made = await send(app, "POST", sessions, OTHER, {"sessionId": name, "state": state})
        assert made.status_code == 200
    found, query = list[str](), ""
    while True:
        page = await send(app, "GET", f"{sessions}?limit=3{query}", OTHER)
        assert len(page.content) < 2 * MAX_BYTES + 10_000
        found += [one["id"] for one in page.json()]
        if (token := page.headers.get("next-page-token")) is None:
            break
        query = f"&page_token={token}"
    assert found == ["d", "c", "b", "a"]


async def test_who_asks_whether_it_is_ready_shares_one_look(
    app: FastAPI, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Anybody may ask, so that it must not cost a look at store and Temporal each time."""
    looks, services = list[str](), app.state.services
    answer: asyncio.Future[list[str]] = asyncio.get_running_loop().create_future()

    async def list_apps() -> list[str]:
        looks.append("store")
        return await answer

    async def check_health() -> None:
        looks.append("Temporal")

    monkeypatch.setattr(services.session_service, "list_apps", list_apps)
    connection = SimpleNamespace(service_client=SimpleNamespace(check_health=check_health))
    monkeypatch.setattr(services, "client", connection)
    monkeypatch.setattr(health, "_SHARED", PATIENCE)
    asking = [asyncio.create_task(send(app, "GET", "/ready", None)) for _ in range(20)]
    await until(lambda: looks)
    answer.set_result([])
    assert {(await one).status_code for one in asking} == {200}
    assert (await send(app, "GET", "/ready", None)).status_code == 200
    assert looks == ["store", "Temporal"]
    monkeypatch.setattr(health, "_SHARED", 0.0)
    assert (await send(app, "GET", "/ready", None)).status_code == 200
    assert looks == ["store", "Temporal"] * 2


async def test_what_does_not_answer_may_be_asked_again(
    app: FastAPI, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Status 503 with Retry-After by each protocol, as that of a load balancer's."""

    async def away(*_: Any, **__: Any) -> Any:
        raise StoreUnavailableError("The store does not answer.")

    for name in ("get_session", "sessions_with", "create_session"):
        monkeypatch.setattr(app.state.services.session_service, name, away)
    for method, path, body in (
        ("GET", "/apps/app/users/olga/sessions/s", None),
        ("GET", "/a2a/app/tasks/x", None),
        ("POST", "/a2a/app/tasks/x:cancel", {}),
    ):
        response = await send(app, method, path, OTHER, body)
        assert response.status_code == 503, (path, response.text)
        assert response.headers["retry-after"] == "1", path


UNKEPT = {"not a number", "not finite", "lone surrogate", "object with a lone surrogate"}
"""Those of which some store would lose something."""


@pytest.mark.parametrize("value", HOSTILE)
async def test_what_no_store_keeps_is_refused_in_every_place(
    app: FastAPI, monkeypatch: pytest.MonkeyPatch, value: str
) -> None:
    """Each place of a body either takes a value as text, or refuses it; none fails for it."""

    async def reached(*_: Any, **__: Any) -> Any:
        raise StoreUnavailableError("A message was taken.")

    monkeypatch.setattr(TemporalBackend, "start", reached)
    monkeypatch.setattr(TemporalBackend, "answer", reached)
    assert (await send(app, "POST", OLGAS, OTHER, {"sessionId": "s"})).status_code == 200
    refusals = range(400, 500)
    for method, path, body in bodies(INVOCATION):
        text = json.dumps(body).replace('"?"', HOSTILE[value])
        response = await send(app, method, path, OTHER, text=text)
        said = f"{path} {body}: {response.status_code} {response.text[:300]}"
        if "A message was taken" in response.text:
            assert value not in UNKEPT, said
        elif path.startswith("/agui") and response.status_code == 200:
            assert "RUN_ERROR" in response.text, said
        elif path == "/a2a/app" and response.status_code == 200:
            assert "error" in response.json(), said
        else:
            assert response.status_code in refusals or value not in UNKEPT, said
            assert response.status_code < 500, said


async def test_what_a_user_may_store_has_a_bound(
    app: FastAPI, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By every route that begins to write; answers are taken, and deleting makes room."""
    services = app.state.services
    services.settings.max_stored_bytes = 4_000
    ids = {"appName": "app", "userId": "alice", "sessionId": "s"}
    said = {**ids, "newMessage": {"role": "user", "parts": [{"text": "x"}]}}
    sessions = "/apps/app/users/alice/sessions"
    files, file = f"{sessions}/s/artifacts", {"filename": "f", "artifact": {"text": "x" * 4_000}}
    run = {"threadId": "s", "runId": "r", "tools": [], "context": [], "state": {}}
    a2a = {"message": {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "x"}]}}
    user = {"id": "1", "role": "user", "content": "x"}
    starts = [
        ("POST", sessions, {}),
        ("POST", f"{sessions}/t", {}),
        ("PATCH", f"{sessions}/s", {"stateDelta": {"a": 1}}),
        *(("POST", path, said) for path in ("/run", "/run_sse", "/invocations")),
        ("POST", "/agui/app", {**run, "messages": [user]}),
        ("POST", "/a2a/app/message:send", a2a),
        ("POST", files, file),
    ]

    async def reached(*_: Any, **__: Any) -> Any:
        raise StoreUnavailableError("A message was taken.")

    for name in ("start", "answer"):
        monkeypatch.setattr(TemporalBackend, name, reached)
    made = await send(app, "POST", sessions, TOKEN, {"sessionId": "s", "state": {"a": "x" * 3_000}})
    assert made.status_code == 200
    assert (await send(app, "POST", files, TOKEN, file)).status_code == 200
    for method, path, body in starts:
        refused = await send(app, method, path, TOKEN, body)
        assert refused.status_code == (400 if path.startswith("/a2a") else 413), (
            path,
            refused.text,
        )
        assert "DURABLE_ADK_SERVER_MAX_STORED_BYTES" in refused.text, path
        assert (
            await send(app, method, path.replace("alice", "olga"), OTHER, {})
        ).status_code != 413
    answer = [{"functionResponse": {"id": "c", "name": "f", "response": {}}}]
    given = await send(app, "POST", "/run", TOKEN, {**ids, "newMessage": {"parts": answer}})
    assert "no pending call" in given.text
    assert (await send(app, "DELETE", f"{sessions}/s", TOKEN)).status_code == 200
    assert (await send(app, "POST", sessions, TOKEN, {"sessionId": "s"})).status_code == 200
    assert (await send(app, "DELETE", f"{files}/f", TOKEN)).status_code == 200
    assert (await send(app, "POST", files, TOKEN, file)).status_code == 200


async def test_lists_of_artifacts_have_pages(app: FastAPI) -> None:
    """Names, versions and their descriptions, whatever characters a name has."""
    files, names = f"{OLGAS}/s/artifacts", ["a", "b/ä ö", "user:%2B+", "z"]
    for name in names:
        body = {"filename": name, "artifact": {"text": "x"}}
        assert (await send(app, "POST", files, OTHER, body)).status_code == 200
    for _ in names[1:]:
        await send(app, "POST", files, OTHER, {"filename": "a", "artifact": {"text": "x"}})
    large = {**body, "customMetadata": {"a": "x" * 200_000}}
    assert (await send(app, "POST", files, OTHER, large)).status_code == 413
    for path in (files, f"{files}/a/versions", f"{files}/a/versions/metadata"):
        whole = (await send(app, "GET", path, OTHER)).json()
        assert len(whole) == len(names)
        found, query = list[Any](), "?limit=3"
        for size in (3, 1):
            page = await send(app, "GET", f"{path}{query}", OTHER)
            assert len(page.json()) == size
            found += page.json()
            query = f"?limit=3&page_token={quote(page.headers.get('next-page-token', ''))}"
        assert found == whole
        assert "next-page-token" not in page.headers
        assert (await send(app, "GET", f"{path}?limit=0", OTHER)).status_code == 422
