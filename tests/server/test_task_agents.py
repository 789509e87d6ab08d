"""A message to a task agent that waits for the user, by each door."""

from typing import Any

import pytest

from durable_adk.agents import LlmAgent
from durable_adk.graph.workflow import Workflow
from durable_adk.models import ScriptedModel
from tests.server.test_agui import body, events
from tests.support.a2a_client import answers, connected, said, state, task_of
from tests.support.http_server import Place, message, placed, read, session
from tests.support.scripts import call


def after(node_input: Any) -> str:
    """The node behind the task."""
    return f"after {node_input['result']}"


@pytest.fixture
async def place(client, tmp_path):
    """A place whose graph begins with a task agent."""
    model = ScriptedModel(replies=["what city?", call("finish_task", result="Paris")])
    agent = LlmAgent(name="asker", model=model, mode="task")
    graph = Workflow(name="wf", edges=[("START", agent, after)])
    async with placed(client, tmp_path, graph) as place:
        yield place


async def invocations(place: Place) -> int:
    """How many invocations there are."""
    return sum((await place.sessions.count_invocations(app_name="app")).values())


@pytest.mark.parametrize("path", ["/run", "/run_sse"])
async def test_a_text_continues_a_task(place: Place, path: str) -> None:
    """GR-173: by ADK's routes, which send what comes of it."""
    http = await place.server()
    await session(http)
    found = []
    for text in ("plan", "Paris"):
        if path == "/run":
            response = await http.post(path, json=message(text))
            assert response.status_code == 200, response.text
            found.append(response.json())
        else:
            found.append([one.data for one in await read(http, path, message(text))])
    assert [one["content"]["parts"][0]["text"] for one in found[0]] == ["what city?"]
    assert found[1][-1]["output"] == "after Paris"
    assert len({one["invocationId"] for one in found[0] + found[1]}) == 1
    assert await invocations(place) == 1


async def test_a_text_continues_a_task_by_ag_ui(place: Place) -> None:
    """GR-173: the second run of the thread has the answer."""
    http = await place.server()
    first = await events(http, body("plan", "r1"))
    assert "".join(getattr(one, "delta", "") for one in first) == "what city?"
    assert first[-1].type == "RUN_FINISHED"
    second = await events(http, body("Paris", "r2"))
    assert "finish_task" in [getattr(one, "tool_call_name", None) for one in second]
    assert second[-1].type == "RUN_FINISHED"
    assert await invocations(place) == 1


@pytest.mark.parametrize("names_task", [True, False])
async def test_a_text_continues_a_task_by_a2a(place: Place, names_task: bool) -> None:
    """GR-173: whether the message names the task or only its context."""
    http = await place.server()
    async with connected(http, streaming=False) as agent:
        task = await task_of(agent, said("plan"))
        assert state(task) == "(input-required)"
        options = {"task": task.id} if names_task else {"context": task.context_id}
        found = await task_of(agent, said("Paris", **options))
        assert (found.id, state(found)) == (task.id, "(completed)")
        assert "what city?" in answers(found)
    assert await invocations(place) == 1
