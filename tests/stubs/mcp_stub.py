"""A real MCP server that writes down what it is asked: ``mcp_stub.py LOG [PORT]``.

Without a port it speaks over stdin and stdout, with one streamable HTTP (and, as ``PORT sse``, the
older transport).
"""

import asyncio
import os
import sys
from pathlib import Path
from typing import Any

from mcp.server.mcpserver import Context, MCPServer as Server
from pydantic import BaseModel

LOG = Path(sys.argv[1])


def note(what: str) -> None:
    """Write a line to the log."""
    with LOG.open("a") as log:
        log.write(what + "\n")


class Stub(Server):  # type: ignore[misc, valid-type]
    async def list_tools(self, *args: Any, **kwargs: Any) -> Any:
        note("list")
        if os.environ.get("HANG") == "list":
            await asyncio.Event().wait()
        return await super().list_tools(*args, **kwargs)


class Point(BaseModel):
    x: int
    y: int | None = None


app = Stub("stub")


@app.tool()
def add(a: int, b: int = 2) -> int:
    """Add two numbers."""
    note(f"add {a}")
    return a + b


@app.tool()
def move(point: Point) -> Point:
    """Move a point."""
    return Point(x=point.x + 1)


@app.tool()
def fail(why: str) -> str:
    """Fail."""
    raise ValueError(why)


@app.tool()
async def wait(seconds: float) -> str:
    """Wait."""
    note("wait")
    try:
        await asyncio.sleep(seconds)
    except asyncio.CancelledError:
        note("wait cancelled")
        raise
    note("waited")
    return "waited"


@app.tool()
def odd(kind: str) -> str:
    """Return what cannot be stored."""
    return {"nul": "a\x00b", "large": "x" * 2_000_000}[kind]


@app.tool()
def exit_now() -> str:
    """End the process in the middle of the call."""
    note("exit_now")
    os._exit(3)


@app.tool()
async def told(ctx: Context) -> dict[str, Any]:
    """Tell the call's metadata and a header."""
    meta = dict(ctx.request_context.meta or {})
    request = getattr(ctx.request_context, "request", None)
    user = request.headers.get("x-user") if request is not None else None
    return {"meta": meta, "user": user}


@app.tool()
async def grow(ctx: Context) -> str:
    """Add a tool and announce it."""
    app.add_tool(lambda: "new", name="grown")
    await ctx.session.send_tool_list_changed()
    return "grown"


note(f"start {os.getpid()}")
if len(sys.argv) == 2:
    app.run("stdio")
else:
    transport = "sse" if "sse" in sys.argv else "streamable-http"
    app.run(transport, port=int(sys.argv[2]), host="127.0.0.1")
