"""An agent with the tools of an MCP server, in each way it can run."""

import sys
from pathlib import Path

from mcp import StdioServerParameters

from durable_adk.agents import LlmAgent
from durable_adk.models import ScriptedModel
from durable_adk.tools.mcp_tool import McpToolset, StdioConnectionParams
from tests.conftest import MakeRunner
from tests.support.scripts import calls, gist, send

STUB = Path(__file__).parents[1] / "stubs" / "mcp_stub.py"


async def test_an_agent_uses_a_servers_tools(make_runner: MakeRunner, tmp_path: Path) -> None:
    """TOL-29: two calls of one turn, one of which fails, over one session that is listed once."""
    log = tmp_path / "server.log"
    server = StdioServerParameters(command=sys.executable, args=[str(STUB), str(log)])
    toolset = McpToolset(
        connection_params=StdioConnectionParams(server_params=server, timeout=20.0)
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
