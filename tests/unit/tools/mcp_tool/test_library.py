"""Without the mcp library."""

import subprocess
import sys

WITHOUT = """
import sys
sys.modules["mcp"] = None  # as if not installed
import durable_adk.runners
from durable_adk.errors import AgentDefinitionError
from durable_adk.tools import mcp_tool
for params in (
    mcp_tool.StreamableHTTPConnectionParams(url="http://127.0.0.1:1/mcp"),
    mcp_tool.StdioConnectionParams(server_params=None),
):
    try:
        mcp_tool.McpToolset(connection_params=params)
    except AgentDefinitionError as error:
        print(error)
"""
NOT_LOADED = "import sys, durable_adk.runners, durable_adk.agents; print('mcp' in sys.modules)"


def run(code: str) -> list[str]:
    """What the code prints in a process of its own."""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return done.stdout.splitlines()


def test_a_toolset_names_the_extra_to_install() -> None:
    """Importing works, making a toolset says what is missing."""
    first, second = run(WITHOUT)
    assert first == second
    assert 'pip install "durable-adk[mcp]"' in first


def test_the_library_is_loaded_by_those_who_use_it() -> None:
    """Importing it takes as long as all of this package; nobody else pays for that."""
    assert run(NOT_LOADED) == ["False"]
