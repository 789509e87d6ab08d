"""The route of a model call's request."""

import uuid
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from temporalio.client import Client

from durable_adk.agents import LlmAgent
from durable_adk.models import ScriptedModel
from durable_adk.ops.erasure.workflows import user_runs
from tests.server.test_invocations import reached, start
from tests.support.http_server import Place, placed, session
from tests.support.scripts import call


def add(a: int, b: int) -> int:
    """Add numbers."""
    return a + b


MODEL = ScriptedModel(replies=[call("add", a=1, b=2), "Three."])


@pytest.fixture
async def place(client: Client, tmp_path: Path) -> AsyncIterator[Place]:
    """A place whose agent adds."""
    agent = LlmAgent(name="adder", model=MODEL, instruction="Add for {name}.", tools=[add])
    async with placed(client, tmp_path, agent) as made:
        yield made


async def asked(http: httpx.AsyncClient, name: str, event_id: str) -> Any:
    """The response of the route."""
    return await http.get(f"/invocations/{name}/requests/{event_id}")


async def test_a_model_call_opens_to_its_request(place: Place, client: Client) -> None:
    """As a worker rebuilds it, by a server without the code; what is none is refused by type."""
    http = await place.server()
    await session(http)
    name = (await start(http, "one and two", stateDelta={"name": "Ann"}))["invocationId"]
    await reached(http, name, "completed")
    events = (await http.get(f"/invocations/{name}/events", params={"follow": False})).json()
    question, called, added, said = (one["event"]["id"] for one in events)
    first, last = (await asked(http, name, called)).json(), (await asked(http, name, said)).json()
    (tool,) = first.pop("tools")[0]["functionDeclarations"]
    assert (tool["name"], tool["description"]) == ("add", "Add numbers.")
    assert first == {
        "rebuilt": True,
        "eventId": called,
        "agent": "adder",
        "model": "scripted",
        "systemInstruction": 'Add for Ann.\n\nYou are an agent. Your internal name is "adder".',
        "contents": [{"role": "user", "parts": [{"text": "one and two"}]}],
        "config": {"labels": {"adk_agent_name": "adder"}},
        "differences": [],  # the options of the run are known, too
    }
    assert len(last["contents"]) == len(MODEL.requests[-1].contents) == 3
    for other in (question, added, "none"):
        refused = await asked(http, name, other)
        assert (refused.status_code, refused.json()["error"]["type"]) == (404, "NotFoundError")
    found = await user_runs(client, app="app", user="u", known=[])
    assert "ModelRequests" in {run.workflow_type for run in found.found}  # erased with the user


async def test_what_no_worker_can_do_is_an_error(client: Client, tmp_path: Path) -> None:
    """Code that has changed is 409 and names what it lacks; without a worker it is 503, at once."""
    agent = LlmAgent(name="a", model=ScriptedModel(replies=["Hello."]))
    async with placed(client, tmp_path, agent) as place:
        http = await place.server()
        await session(http)
        name = (await start(http))["invocationId"]
        await reached(http, name, "completed")
        agent.instruction = "Help {nobody}."
        refused = await asked(http, name, f"{name}.1")
        assert (refused.status_code, refused.json()["error"]["type"]) == (
            409,
            "RequestNotRebuiltError",
        )
        assert "nobody" in refused.json()["error"]["message"]
        place.queue = f"nobody-{uuid.uuid4().hex}"
        alone = await asked(await place.server(), name, f"{name}.1")
        assert (alone.status_code, alone.json()["error"]["type"]) == (503, "NoWorkerError")
