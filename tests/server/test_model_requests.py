"""The route of a model call's request."""

import asyncio
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import httpx
import pytest
from google.protobuf.timestamp_pb2 import Timestamp
from temporalio.api.deployment.v1 import WorkerDeploymentVersion
from temporalio.api.taskqueue.v1 import PollerInfo, TaskQueueVersioningInfo
from temporalio.api.workflowservice.v1 import DescribeTaskQueueResponse
from temporalio.client import Client
from temporalio.converter import DataConverter
from temporalio.service import RPCError, RPCStatusCode

from durable_adk.agents import LlmAgent, RunConfig
from durable_adk.client import invocations
from durable_adk.errors import NoWorkerError, RateLimitError
from durable_adk.models import ScriptedModel
from durable_adk.ops.erasure.workflows import user_runs
from durable_adk.server.routes import model_requests
from durable_adk.server.routes.model_requests import rebuilt_requests
from durable_adk.server.services import ServerServices
from durable_adk.sessions import InMemorySessionService, SessionKey
from durable_adk.sessions.lease_owner import TemporalLeaseOwner
from durable_adk.storage.blobs import Blobs
from durable_adk.storage.memory_objects import MemoryObjects
from durable_adk.storage.payload_driver import owned_storage, owner_folder, owner_of
from durable_adk.wire.messages import InvocationRequest
from tests.server.test_invocations import reached, start
from tests.support.http_server import Place, placed, session
from tests.support.scripts import call
from tests.support.waiting import PATIENCE


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


async def asked(http: httpx.AsyncClient, name: str, event_id: str, **headers: str) -> Any:
    """The response of the route."""
    return await http.get(f"/invocations/{name}/requests/{event_id}", headers=headers)


class Deletions:
    """Deletions of workflows, the first of which Temporal refuses."""

    def __init__(self, real: Callable[..., Awaitable[Any]]) -> None:
        self.ids: list[str] = []
        self._real = real

    async def __call__(self, request: Any, **more: Any) -> Any:
        """Delete."""
        self.ids.append(request.workflow_execution.workflow_id)
        if len(self.ids) == 1:
            raise RPCError("Request unauthorized.", RPCStatusCode.PERMISSION_DENIED, b"")
        return await self._real(request, **more)


@pytest.fixture
def deletions(client: Client, monkeypatch: pytest.MonkeyPatch) -> Deletions:
    """Those by the test's client."""
    made = Deletions(client.workflow_service.delete_workflow_execution)
    monkeypatch.setattr(client.workflow_service, "delete_workflow_execution", made)
    return made


async def test_a_model_call_opens_to_its_request(
    place: Place, client: Client, deletions: Deletions
) -> None:
    """As a worker rebuilds it, by a server without the code; what is none is refused by type.

    Each look is deleted from Temporal, a failed one too; one that Temporal keeps is answered, and
    replays when all tests have run.
    """
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
    assert len(set(deletions.ids)) == 4  # no event "none" is looked for by a worker
    found = await user_runs(client, app="app", user="u", known=[])
    assert deletions.ids[0] in found.workflows  # erased with the user


async def test_only_operators_look(place: Place) -> None:
    """Prompts are the developer's, and a template may show the state of all users."""
    access = {"proxy_header": "X-User", "trusted_proxies": ["127.0.0.1"], "operators": ["olga"]}
    open_to_all, http = await place.server(), await place.server(settings=access)
    await session(open_to_all)
    name = (await start(open_to_all, "hi", stateDelta={"name": "Ann"}))["invocationId"]
    await reached(open_to_all, name, "completed")
    refused = await asked(http, name, f"{name}.1", **{"X-User": "u"})
    assert (refused.status_code, refused.json()["error"]["type"]) == (403, "PermissionDeniedError")
    allowed = await asked(http, name, f"{name}.1", **{"X-User": "olga"})
    assert allowed.json()["agent"] == "adder"


async def test_few_look_at_a_time_and_what_cannot_start_is_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The others are asked to come again. Workers without a current version take no looks."""

    async def described(*_: Any) -> DescribeTaskQueueResponse:
        now = Timestamp()
        now.GetCurrentTime()
        current = WorkerDeploymentVersion(deployment_name="agents", build_id="2")
        return DescribeTaskQueueResponse(
            pollers=[PollerInfo(last_access_time=now)],
            versioning_info=TaskQueueVersioningInfo(current_deployment_version=current),
        )

    monkeypatch.setattr(invocations, "described", described)
    services = ServerServices(
        session_service=InMemorySessionService(),
        client=cast("Any", None),
        task_queue=lambda name: name,
    )

    async def look() -> None:
        await rebuilt_requests(services, SessionKey("app", "u", "s"), ["e"], runs={})

    with pytest.raises(NoWorkerError, match=r"with agents\.2\. Make a version current: temporal"):
        await look()
    async with AsyncExitStack() as stack, asyncio.timeout(PATIENCE):
        for _ in range(4):
            await stack.enter_async_context(services.rebuilds)
        with pytest.raises(RateLimitError, match="try again"):
            await look()


async def test_options_that_do_not_fit_are_not_known(monkeypatch: pytest.MonkeyPatch) -> None:
    """The workflow starts without them, as if Temporal had them no more."""
    configs = {
        name: RunConfig(custom_metadata={"x": "x" * size})
        for name, size in {"a": 600_000, "b": 600_000, "c": 300_000}.items()
    }

    async def started_with(_: Any, workflow: str, __: Any) -> InvocationRequest:
        return InvocationRequest(app="app", user="u", message="", run_config=configs[workflow])

    monkeypatch.setattr(model_requests, "started_with", started_with)
    client: Any = SimpleNamespace(namespace="n")
    owners = {name: str(TemporalLeaseOwner("n", "run", name)) for name in configs}
    assert sorted(await model_requests._run_configs(client, owners)) == ["a", "c"]


async def test_a_look_leaves_no_payload_in_external_storage() -> None:
    """Once Temporal has forgotten the workflow, nobody would know whose it was."""
    blobs = Blobs(MemoryObjects())
    owner = owner_folder(owner_of("n", "w"))
    await blobs.put(f"{owner}/{'0' * 64}", b"a request")
    storage = owned_storage(blobs, key=b"k", threshold=0)

    async def delete(*_: Any, **__: Any) -> None:
        pass

    client: Any = SimpleNamespace(
        namespace="n",
        data_converter=DataConverter(external_storage=storage),
        workflow_service=SimpleNamespace(delete_workflow_execution=delete),
    )
    await model_requests._delete(
        client, cast("Any", SimpleNamespace(id="w", first_execution_run_id="r"))
    )
    assert [one async for one in blobs.of(owner)] == []


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
