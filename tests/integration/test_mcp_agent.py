"""An agent with the tools of an MCP server, in each way it can run."""

import asyncio
import sys
from pathlib import Path

import pytest
from mcp import StdioServerParameters

from durable_adk.agents import LlmAgent
from durable_adk.models import ScriptedModel
from durable_adk.tools.mcp_tool import McpToolset, StdioConnectionParams
from tests.conftest import MakeRunner
from tests.support.scripts import call, calls, gist, send
from tests.support.waiting import PATIENCE, until

pytestmark = pytest.mark.thorough

STUB = Path(__file__).parents[1] / "stubs" / "mcp_stub.py"


@pytest.mark.thorough
async def test_an_agent_uses_a_servers_tools(make_runner: MakeRunner, tmp_path: Path) -> None:
    """TOL-29: two calls of one turn, one of which fails, over one session that is listed once."""
    log = tmp_path / "server.log"
    server = StdioServerParameters(command=sys.executable, args=[str(STUB), str(log)])
    toolset = McpToolset(
        connection_params=StdioConnectionParams(server_params=server, timeout=PATIENCE)
    )
    model = ScriptedModel(replies=[calls(("add", {"a": 1}), ("fail", {"why": "me"})), "three"])
    runner = await make_runner(LlmAgent(name="a", model=model, tools=[toolset]))
    events = await send(runner)
    assert [gist(event) for event in events] == [
        "a call add,fail",
        "a response add,fail",
        "a text three",
    ]
    added, failed = (answer.response for answer in events[1].get_function_responses())
    assert added["structuredContent"] == {"result": 3}
    assert "error" in failed
    lines = log.read_text().splitlines()
    assert [len([line for line in lines if line.startswith(w)]) for w in ("start", "list")] == [
        1,
        1,
    ]


@pytest.mark.thorough
async def test_a_call_waits_for_a_server_that_this_worker_has_not_reached_yet(
    make_runner: MakeRunner, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """F23: as on a worker that takes over while the server is away; the offer went without it."""
    command = tmp_path / "server"
    server = StdioServerParameters(command=str(command), args=[str(STUB), str(tmp_path / "log")])
    toolset = McpToolset(
        connection_params=StdioConnectionParams(server_params=server, timeout=PATIENCE)
    )
    model = ScriptedModel(replies=[call("add", a=1, b=2), "three"])
    runner = await make_runner(LlmAgent(name="a", model=model, tools=[toolset]))
    sending = asyncio.create_task(send(runner))

    def is_missed() -> bool:
        assert not sending.done(), sending.result()
        return "toolset.unavailable" in [record.message for record in caplog.records]

    await until(is_missed)
    command.write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    command.chmod(0o700)
    events = await sending
    (response,) = events[1].get_function_responses()
    assert (response.response or {})["structuredContent"] == {"result": 3}
    assert list(model.requests[0].tools_dict) == []
    assert "toolset.skipped" in [record.message for record in caplog.records]
