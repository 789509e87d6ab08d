import os
import sys

from google.adk.agents import LlmAgent
from google.adk.tools.mcp_tool.mcp_session_manager import StdioConnectionParams
from google.adk.tools.mcp_tool.mcp_toolset import MCPToolset
from mcp import StdioServerParameters

HERE = os.path.dirname(os.path.abspath(__file__))
FOLDER = os.path.join(HERE, "papers")

root_agent = LlmAgent(
    model="gemini-2.0-flash",
    name="archivist",
    instruction=f"You help with the files in {FOLDER}. Nothing outside of it concerns you.",
    tools=[
        MCPToolset(
            connection_params=StdioConnectionParams(
                server_params=StdioServerParameters(
                    command=sys.executable,
                    args=[os.path.join(HERE, "server.py"), FOLDER],
                ),
                timeout=20,
            ),
            tool_filter=["list_directory", "read_file"],
        )
    ],
)
