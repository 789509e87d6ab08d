"""A server of files over MCP, in the place of @modelcontextprotocol/server-filesystem."""

import sys
from pathlib import Path

from mcp.server.mcpserver import MCPServer

FOLDER = Path(sys.argv[1])
server = MCPServer("files")


@server.tool()
def list_directory() -> list[str]:
    """List the files."""
    return sorted(path.name for path in FOLDER.iterdir())


@server.tool()
def read_file(name: str) -> str:
    """Read a file."""
    return (FOLDER / name).read_text()


@server.tool()
def delete_file(name: str) -> str:
    """Delete a file."""
    (FOLDER / name).unlink()
    return "deleted"


if __name__ == "__main__":
    server.run()
