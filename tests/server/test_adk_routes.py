"""ADK's other routes: sessions, artifacts, memory, graphs, traces and its page."""

import base64
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import pytest

from durable_adk.agents import LlmAgent
from durable_adk.apps import App
from durable_adk.errors import InvalidRequestError
from durable_adk.events import Event, RequestInput
from durable_adk.models import ScriptedModel
from durable_adk.workflow import DEFAULT_ROUTE, Workflow
from tests.server.test_authentication import OTHER, TOKEN, bearer, digest
from tests.support.http_server import USERS, Place, message, placed, session, streamed
from tests.support.scripts import call
from tests.support.waiting import until


def add(a: int, b: int) -> int:
    """Add numbers."""
    return a + b


HELPER = LlmAgent(name="helper", model="none", description="Helps.")
AGENT = LlmAgent(
    name="root",
    model=ScriptedModel(replies=[call("add", a=1, b=2), "It is three."]),
    description="Adds.",
    instruction="Add.",
    tools=[add],
    sub_agents=[HELPER],
)
APP = App(name="app", root_agent=AGENT)


@pytest.fixture
async def place(client, tmp_path) -> AsyncIterator[Place]:
    """A place whose agent adds."""
    async with placed(client, tmp_path, APP) as made:
        yield made


@pytest.fixture
async def http(place) -> httpx.AsyncClient:
    """A client of a server that has the app's code, and a session."""
    made = await place.server(apps=[APP])
    await session(made)
    return made


async def test_ids_may_have_any_visible_characters(place):
    """Also a slash, which a client encodes: all routes with the ids in their path take them."""
    user, name = "team/日本", "a/b c%2F?#&;é/"
    tokens = [
        {"user": user, "sha256": digest(TOKEN)},
        {"user": "team", "sha256": digest(OTHER)},
    ]
    http = await place.server(apps=[APP], settings={"tokens": tokens})
    http.headers.update(bearer(TOKEN))
    users = f"/apps/app/users/{quote(user, safe='')}/sessions"
    path = f"{users}/{quote(name, safe='')}"
    assert (await http.post(users, json={"sessionId": name})).json()["id"] == name
    assert (await http.get(path)).json()["id"] == name
    assert [one["id"] for one in (await http.get(users)).json()] == [name]
    ids = {"appName": "app", "userId": user, "sessionId": name}
    ran = (await http.post("/run", json=message("add") | ids)).json()
    assert ran
    async with streamed(http, f"{path}/events") as stream:
        assert (await anext(stream)).data["event"]["author"] == "user"
    assert (await http.get(f"{path}/queue")).json() == []
    artifact = {"filename": "a/b.txt", "artifact": {"text": "hi"}}
    saved = await http.post(f"{path}/artifacts", json=artifact)
    assert saved.status_code == 200, saved.text
    assert (await http.get(f"{path}/artifacts/a%2Fb.txt")).json() == {"text": "hi"}
    rewound = {"invocationId": ran[0]["invocationId"]}
    assert (await http.post(f"{path}/rewind", json=rewound)).status_code == 200
    http.headers.update(bearer(OTHER))
    assert (await http.get(path)).status_code == 403
    http.headers.update(bearer(TOKEN))
    assert (await http.delete(path)).status_code == 200
    assert (await http.get(users)).json() == []
    http.headers.pop("authorization")  # no path is taken for that of a card, which is for all
    hidden = await http.post("/a2a/app%2F.well-known%2Fagent-card.json", json={})
    assert hidden.status_code == 401


async def test_sessions_are_created_listed_changed_and_deleted(http):
    """With ADK's keys and statuses."""
    created = (await http.post(USERS, json={"state": {"a": 1}})).json()
    assert created["appName"] == "app"
    assert created["state"] == {"a": 1}
    taken = await http.post(USERS, json={"sessionId": created["id"]})
    assert (taken.status_code, taken.json()["detail"]) == (
        409,
        f"Session already exists: {created['id']}",
    )
    listed = (await http.get(USERS)).json()
    assert {one["id"] for one in listed} == {"s", created["id"]}
    path = f"{USERS}/{created['id']}"
    changed = (await http.patch(path, json={"stateDelta": {"b": 2, "temp:c": 3}})).json()
    assert changed["state"] == {"a": 1, "b": 2}
    (event,) = (await http.get(path)).json()["events"]
    assert event["author"] == "user"
    assert event["invocationId"].startswith("p-")
    assert (await http.delete(path)).status_code == 200
    missing = await http.get(path)
    assert (missing.status_code, missing.json()["detail"]) == (404, "Session not found")
    assert (await http.post(USERS)).status_code == 200


async def test_a_session_is_made_of_events(http):
    """Those of a conversation are kept; what only the runtime may say is refused."""
    said = {"author": "user", "content": {"role": "user", "parts": [{"text": "hi"}]}}
    created = (await http.post(USERS, json={"events": [said]})).json()
    assert [one["content"] for one in created["events"]] == [said["content"]]
    forged = said | {"actions": {"stateDelta": {"x": 1}}}
    refused = await http.post(USERS, json={"events": [forged]})
    assert (refused.status_code, refused.json()["detail"]) == (
        400,
        "Session initialization event 0 cannot include event actions.",
    )
    for mark in ("adk_settled", "adk_deadlines", "adk_any"):
        marked = await http.post(USERS, json={"events": [said | {"customMetadata": {mark: 1}}]})
        assert (marked.status_code, mark in marked.json()["detail"]) == (400, True)
    nul = await http.post(USERS, json={"events": [said | {"id": "a\0"}]})
    assert nul.status_code == 400


async def test_artifacts_have_versions(http):
    """They are saved, listed, described, loaded and deleted, also with a slash in the name."""
    path = f"{USERS}/s/artifacts"
    data = base64.b64encode(b"\xff\xfe data").decode()
    part: dict[str, Any] = {"inlineData": {"data": data, "mimeType": "image/png"}}
    body = {"filename": "a/b.png", "artifact": part, "customMetadata": {"k": 1}}
    for version in range(2):
        saved = (await http.post(path, json=body)).json()
        assert (saved["version"], saved["customMetadata"]) == (version, {"k": 1})
    marked = await http.post(path, json=body | {"customMetadata": {"adk_answered_by": "u"}})
    assert (marked.status_code, "adk_answered_by" in marked.text) == (400, True)
    assert (await http.get(path)).json() == ["a/b.png"]
    assert (await http.get(f"{path}/a/b.png/versions")).json() == [0, 1]
    for one in ("", "?version=0", "/versions/1", "/versions/latest"):
        loaded = (await http.get(f"{path}/a/b.png{one}")).json()
        assert base64.urlsafe_b64decode(loaded["inlineData"]["data"]) == b"\xff\xfe data"
    described = (await http.get(f"{path}/a/b.png/versions/metadata")).json()
    assert [one["version"] for one in described] == [0, 1]
    (one, latest) = [
        (await http.get(f"{path}/a/b.png/versions/{name}/metadata")).json()
        for name in (1, "latest")
    ]
    assert one == latest == described[1]
    assert (await http.get(f"{path}/a/b.png/versions/x")).status_code == 422
    assert (await http.get(f"{path}/a/b.png/versions/7")).status_code == 404
    assert (await http.delete(f"{path}/a/b.png")).status_code == 200
    missing = await http.get(f"{path}/a/b.png")
    assert (missing.status_code, missing.json()["detail"]) == (404, "Artifact not found")


async def test_a_session_is_remembered(http, place):
    """Its events are in the user's memory afterwards."""
    await http.post("/run", json=message("add"))
    response = await http.patch("/apps/app/users/u/memory", json={"sessionId": "s"})
    assert response.status_code == 200
    memory = place.services["memory_service"]
    found = await memory.search_memory(app_name="app", user_id="u", query="three")
    assert len(found.memories) == 1
    missing = await http.patch("/apps/app/users/u/memory", json={"sessionId": "no"})
    assert missing.status_code == 404


async def test_an_app_is_described(http):
    """Its agents and tools, as a list, a tree and a graph."""
    assert (await http.get("/list-apps?relative_path=./")).json() == ["app"]
    (listed,) = (await http.get("/list-apps?detailed=true")).json()["apps"]
    assert (listed["name"], listed["rootAgentName"], listed["description"]) == (
        *("app", "root"),
        "Adds.",
    )
    info = (await http.get("/apps/app/app-info")).json()
    assert set(info["agents"]) == {"root", "helper"}
    (tool,) = info["agents"]["root"]["tools"]
    assert tool["functionDeclarations"][0]["name"] == "add"
    tree = (await http.get("/dev/apps/app/build_graph")).json()
    assert [one["name"] for one in tree["root_agent"]["sub_agents"]] == ["helper"]
    image = (await http.get("/dev/apps/app/build_graph_image?dark_mode=true")).json()
    assert '"root" -> "add"' in image[""]["dotSrc"]
    unknown = await http.get("/dev/apps/other/build_graph")
    assert unknown.status_code == 404


async def test_an_app_that_a_worker_serves_may_be_begun_by_users(place):
    """Without a session or a setting; users know its name and description, and nothing else."""
    tokens = [{"user": "alice", "sha256": digest(TOKEN)}]
    made = await place.server(settings={"tokens": tokens})
    made.headers.update(bearer(TOKEN))
    await until(place.sessions.served_apps)
    assert (await made.get("/list-apps")).json() == ["app"]
    assert (await made.get("/list-apps?detailed=true")).json() == {
        "apps": [
            {
                "name": "app",
                "rootAgentName": "root",
                "description": "Adds.",
                "language": "python",
                "isComputerUse": False,
            }
        ]
    }
    place.queue = "others"  # whose worker, if any, has other apps
    other = await place.server(settings={"tokens": tokens})
    other.headers.update(bearer(TOKEN))
    assert (await other.get("/list-apps")).json() == []
    mine = "/apps/app/users/alice/sessions"
    assert (await other.post(mine, json={})).json()["error"]["type"] == "UnknownAppError"
    assert (await made.post(mine, json={})).status_code == 200
    set_ = await place.server(apps=["desk"])
    assert (await set_.get("/list-apps")).json() == ["desk"]


async def test_traces_are_made_of_what_is_stored(http):
    """An invocation, its model calls and its tool, with the attributes that ADK's page reads."""
    events = (await http.post("/run", json=message("add"))).json()
    spans = (await http.get("/dev/apps/app/debug/trace/session/s")).json()
    assert [one["name"] for one in spans] == [
        *("invocation", "invoke_agent root", "call_llm"),
        *("execute_tool add", "call_llm"),
    ]
    root, agent, *steps = spans
    assert agent["parent_span_id"] == root["span_id"]
    assert all(one["parent_span_id"] == agent["span_id"] for one in steps)
    assert all(one["logs"] == [] and one["start_time"] <= one["end_time"] for one in spans)
    ids = [one["attributes"]["gcp.vertex.agent.event_id"] for one in steps]
    assert ids == [event["id"] for event in events]
    asked = [json.loads(steps[at]["attributes"]["gcp.vertex.agent.llm_request"]) for at in (0, 2)]
    assert [len(each["contents"]) for each in asked] == [1, 3]
    config = asked[0]["config"]
    assert config["system_instruction"].startswith("Add.")
    assert config["tools"][0]["function_declarations"][-1]["name"] == "add"
    one = (await http.get(f"/dev/apps/app/debug/trace/{ids[0]}")).json()
    assert json.loads(one["gcp.vertex.agent.llm_request"]) == asked[0]
    assert one["span_id"] == steps[0]["span_id"]
    assert "add" in one["gcp.vertex.agent.llm_response"]
    assert (await http.get("/dev/apps/app/debug/trace/no.1")).status_code == 404
    for name in ("s2", "s3"):
        await session(http, name)
        await http.post("/run", json=message("add") | {"sessionId": name, "invocationId": "twice"})
    trace = "/dev/apps/app/debug/trace/twice.1"
    assert (await http.get(trace)).status_code == 409
    for name in ("s2", "s3"):
        found = (await http.get(trace, params={"session_id": name})).json()
        assert found["gcp.vertex.agent.session_id"] == name
    graph = f"/dev/apps/app/users/u/sessions/s/events/{ids[0]}/graph"
    assert "fillcolor" in (await http.get(graph)).json()["dotSrc"]
    assert (await http.get(graph.replace(ids[0], "no"))).json() == {}


async def test_the_page_of_adk_is_served_from_a_folder(place, tmp_path: Path):
    """With a configuration that leads it back here; a folder without it is refused."""
    folder = tmp_path / "ui"
    folder.mkdir()
    with pytest.raises(InvalidRequestError, match=r"no index\.html"):
        await place.server(settings={"adk_ui": folder})
    (folder / "index.html").write_text("<p>page</p>")
    http = await place.server(settings={"adk_ui": folder})
    page = await http.get("/dev-ui/")
    assert "<p>page</p>" in page.text
    assert "script-src 'self'" in page.headers["content-security-policy"]
    config = (await http.get("/dev-ui/assets/config/runtime-config.json")).json()
    assert config == {"backendUrl": "", "telemetry": False}
    assert (await http.get("/version")).json()["language"] == "python"
    assert (await http.get("/ready")).json() == {"status": "ok"}
    assert (await http.get("/health")).json() == {"status": "ok"}


def ask(node_input: str) -> RequestInput:
    """Ask a person."""
    return RequestInput(interrupt_id="q", message="Good?", payload=node_input)


def decide(node_input: str) -> Event:
    """Return the answer as route."""
    return Event(output={"said": node_input}, route=node_input)


WRITER = LlmAgent(name="writer", model="none")


def tell(node_input: dict[str, str]) -> dict[str, str]:
    """Return the graph's output."""
    return {"told": node_input["said"]}


INNER = Workflow(name="inner", edges=[("START", decide, {"no": ask})])
GRAPH = App(
    name="graph",
    root_agent=Workflow(
        name="wf",
        description="Asks.",
        edges=[("START", ask, decide, {"yes": WRITER, "no": INNER, DEFAULT_ROUTE: tell})],
    ),
)


@pytest.fixture
async def graph_server(client, tmp_path) -> AsyncIterator[httpx.AsyncClient]:
    """A client of a server that has the code of a graph."""
    async with placed(client, tmp_path, GRAPH) as made:
        yield await made.server(apps=[GRAPH])


async def test_graphs_are_described(graph_server):
    """GR-210: nodes with kinds, edges with routes, and one drawing per graph."""
    http = graph_server
    root = (await http.get("/dev/apps/graph/build_graph")).json()["root_agent"]
    assert root["type"] == "Workflow"
    assert [(one["name"], one["type"]) for one in root["nodes"]] == [
        ("__START__", "start"),
        ("ask", "function"),
        ("decide", "function"),
        ("writer", "agent"),
        ("inner", "workflow"),
        ("tell", "function"),
    ]
    assert {"from_node": "decide", "to_node": "inner", "route": "no"} in root["edges"]
    assert [one["name"] for one in root["sub_agents"]] == ["writer", "inner"]
    images = (await http.get("/dev/apps/graph/build_graph_image")).json()
    assert list(images) == ["", "inner"]
    source = images[""]["dotSrc"]
    assert '"decide" [label="decide" shape=diamond]' in source
    assert '"decide" -> "tell" [label="default"]' in source
    doubtful = images["inner"]["dotSrc"]
    assert '"decide" [label="decide [NO DEFAULT]" shape=diamond]' in doubtful
    assert '"decide" -> "inner" [label="no"]' in source
    assert '"writer" -> "__END__"' in source
    inner = (await http.get("/dev/apps/graph/build_graph_image?node=inner")).json()
    assert inner == {"inner": images["inner"]}
    assert (await http.get("/dev/apps/graph/graph")).json() == images[""]
    listed = (await http.get("/list-apps?detailed=true")).json()["apps"]
    assert listed[0]["rootAgentName"] == "wf"


async def test_runs_of_graphs_reach_every_protocol(graph_server):
    """The events have outputs and paths; an event's drawing marks its node."""
    http = graph_server
    users = USERS.replace("/apps/app/", "/apps/graph/")
    assert (await http.post(users, json={"sessionId": "s"})).status_code == 200
    body = {**message("hi"), "appName": "graph"}
    events = (await http.post("/run", json=body)).json()
    (call,) = events[-1]["content"]["parts"]
    assert call["functionCall"]["args"]["message"] == "Good?"
    assert events[-1]["nodeInfo"]["path"] == "wf@1/ask@1"
    where = f"/dev/apps/graph/users/u/sessions/s/events/{events[-1]['id']}/graph"
    assert '"ask" [label="ask" shape=box style="filled' in (await http.get(where)).json()["dotSrc"]
    answer = {"id": "q", "name": "adk_request_input", "response": {"result": "maybe"}}
    parts = [{"functionResponse": answer}]
    body["newMessage"] = {"role": "user", "parts": parts}
    said = (await http.post("/run", json=body)).json()
    assert [one.get("output") for one in said] == [
        "maybe",
        {"said": "maybe"},
        {"told": "maybe"},
    ]
    await _asks_and_ends_by_protocol(http)
    card = (await http.get("/a2a/graph/.well-known/agent-card.json")).json()
    assert (card["name"], card["description"]) == ("graph", "Asks.")
    assert [one["id"] for one in card["skills"]] == ["wf", "writer", "inner"]


async def _asks_and_ends_by_protocol(http: httpx.AsyncClient) -> None:
    """A2A and AG-UI have the question, and then the graph's output as text."""
    sent = {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "hi"}]}
    headers = {"A2A-Version": "1.0"}
    path = "/a2a/graph/message:send"
    task = (await http.post(path, json={"message": sent}, headers=headers)).json()["task"]
    assert task["status"]["state"] == "TASK_STATE_INPUT_REQUIRED"
    data = {"callId": "q", "response": {"result": "maybe"}}
    where = {"taskId": task["id"], "contextId": task["contextId"]}
    reply = {**sent, **where, "messageId": "m2", "parts": [{"data": data}]}
    task = (await http.post(path, json={"message": reply}, headers=headers)).json()["task"]
    assert task["status"]["state"] == "TASK_STATE_COMPLETED", task
    (artifact,) = task["artifacts"]
    assert artifact["parts"] == [{"text": '{"told": "maybe"}'}]
    sent = {"messages": [{"id": "m", "role": "user", "content": "hi"}], "threadId": "t"}
    body = {**sent, "runId": "r1", "tools": [], "context": [], "state": {}, "forwardedProps": {}}
    async with streamed(http, "/agui/graph", body) as stream:
        asked = [one.data async for one in stream]
    (interrupt,) = asked[-1]["outcome"]["interrupts"]
    assert interrupt["message"] == "Good?"
    answer = {"interruptId": interrupt["id"], "status": "resolved", "payload": {"result": "maybe"}}
    async with streamed(http, "/agui/graph", {**body, "runId": "r2", "resume": [answer]}) as stream:
        ended = [one.data async for one in stream]
    assert '{"told": "maybe"}' in [one.get("delta") for one in ended]
