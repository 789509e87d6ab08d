"""The same requests to google-adk's own server and to ours, compared field by field."""

import json
import subprocess
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from google.genai import types

from durable_adk.agents import LlmAgent
from durable_adk.apps import App
from durable_adk.models import LlmRequest, ScriptedModel
from tests.support.http_server import USERS, items, message, placed
from tests.support.required import ROOT, interpreter
from tests.support.waiting import PATIENCE

pytestmark = pytest.mark.thorough

MASKED = {
    *("id", "invocationId", "timestamp", "lastUpdateTime", "createTime", "canonicalUri"),
    *("error_details", "version", "language_version"),
}
"""What differs between any two runs, or servers."""
LEFT_OUT = {
    "error": "beside ADK's detail, in our bodies",
    "finishReason": "said by our scripted model",
    "nodeInfo": "of ADK's graphs of nodes, which this runtime does not have",
    "parameters": "the same schema, which ADK writes as",
    "parametersJsonSchema": "JSON Schema",
}
"""Fields that only one of the servers has, and why."""


def add(a: int, b: int) -> int:
    """Add numbers."""
    return a + b


def reply(request: LlmRequest) -> types.Content:
    """What google-adk's side says: call the tool, and then say what it returned."""
    parts = request.contents[-1].parts or []
    if any(part.function_response for part in parts):
        return types.Content(role="model", parts=[types.Part(text="It is three.")])
    call = types.FunctionCall(name="add", args={"a": 1, "b": 2})
    return types.Content(role="model", parts=[types.Part(function_call=call)])


AGENT = LlmAgent(
    name="root",
    model=ScriptedModel(model="scripted", replies=reply),
    description="Adds.",
    instruction="Add.",
    tools=[add],
)
APP = App(name="app", root_agent=AGENT)


@pytest.fixture(scope="module")
def theirs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of google-adk's server."""
    folder = tmp_path_factory.mktemp("adk")
    (folder / "app").mkdir()
    command = [interpreter("adk"), "-m", "tests.support.adk_server", str(folder)]
    with (folder / "log").open("w") as log:
        process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=log, text=True)
    assert process.stdout is not None
    port = process.stdout.readline().strip()
    assert port, Path(folder / "log").read_text()[-3000:]
    yield f"http://127.0.0.1:{port}"
    process.kill()
    process.communicate()


@pytest.fixture
async def both(client, tmp_path, theirs) -> AsyncIterator[list[httpx.AsyncClient]]:
    """Clients of google-adk's server and of ours."""
    async with placed(client, tmp_path, APP) as place:
        ours = await place.server(apps=[APP])
        async with httpx.AsyncClient(base_url=theirs, timeout=PATIENCE) as other:
            yield [other, ours]


def plain(value: Any) -> Any:
    """A body without what differs between any two runs."""
    if isinstance(value, list):
        return [plain(one) for one in value]
    if not isinstance(value, dict):
        return value
    return {
        key: "*" if key in MASKED else plain(one)
        for key, one in value.items()
        if key not in LEFT_OUT and one not in ({}, [])
    }


async def asked(
    both: list[httpx.AsyncClient], method: str, path: str, body: Any = None
) -> list[tuple[int, Any]]:
    """Status and body of each server's response; both must be the same."""
    found = []
    for http in both:
        response = await http.request(method, path, json=body)
        text = response.text
        found.append((response.status_code, plain(json.loads(text)) if text else None))
    assert found[0] == found[1], (method, path)
    return found


@pytest.mark.thorough
async def test_sessions_are_the_same(both):
    """Created, found, changed, listed and deleted; and each refusal."""
    one = f"{USERS}/one"
    for method, path, body in [
        ("GET", "/list-apps", None),
        ("GET", "/health", None),
        ("POST", USERS, {"sessionId": "one", "state": {"a": 1, "b": [2]}}),
        ("POST", USERS, {"sessionId": "one"}),
        ("GET", one, None),
        ("PATCH", one, {"stateDelta": {"a": 2}}),
        ("PATCH", f"{USERS}/no", {"stateDelta": {"a": 2}}),
        ("GET", one, None),
        ("GET", USERS, None),
        ("GET", f"{USERS}/no", None),
        ("POST", USERS, {"events": [{"author": "user", "longRunningToolIds": ["x"]}]}),
        ("DELETE", one, None),
        ("DELETE", one, None),
        ("GET", USERS, None),
    ]:
        await asked(both, method, path, body)


async def test_runs_are_the_same(both):
    """As a list, as a stream, and refused."""
    await asked(both, "POST", USERS, {"sessionId": "s"})
    await asked(both, "POST", "/run", message("add"))
    await asked(both, "POST", "/run", message("add") | {"sessionId": "no"})
    await asked(both, "GET", f"{USERS}/s")
    streams = []
    for http in both:
        async with http.stream("POST", "/run_sse", json=message("again")) as response:
            assert response.headers["content-type"].startswith("text/event-stream")
            streams.append([plain(one.data) async for one in items(response)])
    assert streams[0] == streams[1]
    for http in both:
        response = await http.post("/run_sse", json=message("add") | {"sessionId": "no"})
        assert (response.status_code, response.json()["detail"]) == (404, "Session not found: no")
    refused = [(await http.post("/run", json={"appName": "app"})) for http in both]
    assert [one.status_code for one in refused] == [422, 422]
    places = [[error["loc"] for error in one.json()["detail"]] for one in refused]
    assert places[0] == places[1]


async def test_artifacts_are_the_same(both):
    """Saved, described, listed, loaded and deleted."""
    await asked(both, "POST", USERS, {"sessionId": "f"})
    path = f"{USERS}/f/artifacts"
    part = {"inlineData": {"data": "aGk/Pz4+", "mimeType": "text/plain"}}
    for method, where, body in [
        ("GET", path, None),
        ("POST", path, {"filename": "a.txt", "artifact": part}),
        ("POST", path, {"filename": "a.txt", "artifact": part, "customMetadata": {"k": "v"}}),
        ("GET", path, None),
        ("GET", f"{path}/a.txt", None),
        ("GET", f"{path}/a.txt?version=0", None),
        ("GET", f"{path}/a.txt/versions", None),
        ("GET", f"{path}/a.txt/versions/1", None),
        ("GET", f"{path}/a.txt/versions/latest", None),
        ("GET", f"{path}/a.txt/versions/7", None),
        ("GET", f"{path}/a.txt/versions/1/metadata", None),
        ("GET", f"{path}/a.txt/versions/metadata", None),
        ("GET", f"{path}/no.txt", None),
        ("DELETE", f"{path}/a.txt", None),
        ("GET", path, None),
    ]:
        await asked(both, method, where, body)


async def test_descriptions_are_the_same(both):
    """Of the app and its tools, and what the page asks first."""
    for path in ("/apps/app/app-info", "/version"):
        await asked(both, "GET", path)
    for http in both:
        config = (await http.get("/dev-ui/assets/config/runtime-config.json")).json()
        assert {"backendUrl"} <= set(config)
        tree = (await http.get("/dev/apps/app/build_graph")).json()
        assert (tree["name"], tree["root_agent"]["name"]) == ("app", "root")
        image = (await http.get("/dev/apps/app/build_graph_image")).json()
        assert image[""]["dotSrc"]


async def test_memory_takes_the_same(both):
    """A session that exists, and none that does not."""
    await asked(both, "POST", USERS, {"sessionId": "m"})
    await asked(both, "PATCH", "/apps/app/users/u/memory", {"sessionId": "m"})
    await asked(both, "PATCH", "/apps/app/users/u/memory", {"sessionId": "no"})
