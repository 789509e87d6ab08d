"""google-adk's remote agent, below an agent of ours, asks an app of our server over A2A."""

import asyncio
import json
import uuid
from asyncio.subprocess import PIPE, Process

import pytest

from durable_adk.agents import LlmAgent
from durable_adk.client import connect
from durable_adk.embedded import TemporalServer
from durable_adk.models import ScriptedModel
from durable_adk.server.services import ServerServices
from durable_adk.sessions import SqliteSessionService
from durable_adk.sessions.records import StoredEvent
from durable_adk.tools import FunctionTool, LongRunningFunctionTool
from durable_adk.wire.messages import InvocationRequest
from tests.support.http_server import Place, placed
from tests.support.required import ROOT, interpreter
from tests.support.scripts import call
from tests.support.streams import StreamingModel
from tests.support.waiting import PATIENCE, until

pytestmark = pytest.mark.thorough
CARD = "/a2a/app/.well-known/agent-card.json"


async def side(*arguments: str) -> Process:
    """A process of google-adk's environment."""
    command = (interpreter("adk"), "-m", "tests.interop.remote_side", *arguments)
    return await asyncio.create_subprocess_exec(*command, cwd=ROOT, stdout=PIPE)


async def working(*arguments: str) -> Process:
    """A worker of the agent with the remote one, once it works."""
    process = await side("work", *arguments)
    assert process.stdout is not None
    assert await process.stdout.readline() == b"ready\n"
    return process


@pytest.fixture
async def elsewhere(tmp_path):
    """A Temporal of this test: histories of google-adk's agents are not replayed here."""
    async with TemporalServer.start(data_dir=tmp_path / "temporal", headless=True) as server:
        yield server, await connect(server.address)


async def asked(place: Place) -> int:
    """How many runs the remote app has had."""
    return sum((await place.sessions.count_invocations(app_name="app")).values())


async def test_a_remote_agent_asks_our_server(client, tmp_path):
    """It gets the answer; the second message continues in the same context there."""
    agent = LlmAgent(name="there", model=ScriptedModel(replies=["First.", "Second."]))
    async with placed(client, tmp_path, agent) as place:
        http = await place.server()
        asking = await side("ask", f"{http.base_url}{CARD}", "one", "two")
        output, _ = await asking.communicate()
        runs = await place.sessions.invocations_by_time(app_name="app")
    assert json.loads(output.splitlines()[-1]) == ["remote: First.", "remote: Second."]
    assert len(runs) == 2
    assert len({key for key, _ in runs}) == 1


async def test_a_remote_agent_is_a_tool(client, tmp_path):
    """Its answer is the tool's result."""
    agent = LlmAgent(name="there", model=ScriptedModel(replies=["First."]))
    async with placed(client, tmp_path, agent) as place:
        http = await place.server()
        asking = await side("use", f"{http.base_url}{CARD}", "one")
        output, _ = await asking.communicate()
    assert json.loads(output.splitlines()[-1]) == [{"result": "First."}, "It said so."]


async def test_what_our_server_asks_is_answered_by_its_id(client, tmp_path):
    """A confirmation and a long-running call reach the remote agent's caller, and back."""
    heard = []

    def reply(request):
        last = request.contents[-1].parts[-1]
        if last.function_response:
            heard.append(last.function_response.response)
            return "Settled."
        return call(last.text, amount=5)

    tools = [FunctionTool(pay, require_confirmation=True), LongRunningFunctionTool(look)]
    agent = LlmAgent(name="there", model=ScriptedModel(replies=reply), tools=tools)
    responses = {"pay": {"confirmed": True}, "look": {"decision": "yes"}}
    async with placed(client, tmp_path, agent) as place:
        http = await place.server()
        asking = await side("answer", f"{http.base_url}{CARD}", json.dumps(responses))
        output, _ = await asking.communicate()
    said = [["adk_request_confirmation", "Settled."], ["look", "Settled."]]
    assert json.loads(output.splitlines()[-1]) == said * 2
    assert heard == [{"result": "paid 5"}, {"decision": "yes"}] * 2


def pay(amount: int) -> str:
    """Pay."""
    return f"paid {amount}"


def look(amount: int) -> None:
    """Have somebody look."""


async def test_a_killed_worker_asks_the_remote_agent_once(elsewhere, tmp_path):
    """Another worker follows the run that the first one has started there."""
    server, client = elsewhere
    gate = asyncio.Event()
    agent = LlmAgent(name="there", model=StreamingModel(turns=[[gate, "Done."]]))
    queue, file = uuid.uuid4().hex, tmp_path / "here.db"
    here = SqliteSessionService(file)
    services = ServerServices(session_service=here, client=client, task_queue=lambda _: queue)
    async with placed(client, tmp_path, agent) as place, asyncio.timeout(4 * PATIENCE):
        http = await place.server()
        arguments = (f"{http.base_url}{CARD}", server.address, str(file), queue)
        request = InvocationRequest(app="here", user="u", session="s", message="one").checked()
        first = await working(*arguments)
        feed = services.invocations("here").start(request)
        reading = asyncio.ensure_future(_texts(feed))
        await until(lambda: asked(place))
        first.kill()
        await first.wait()
        second = await working(*arguments)
        gate.set()
        texts = await reading
        second.kill()
        await second.wait()
        runs = await asked(place)
    await services.close()
    await here.close()
    assert texts == ["one", "Done."]
    assert runs == 1


async def _texts(feed):
    return [one.event.text async for one in feed if isinstance(one, StoredEvent) and one.event.text]
