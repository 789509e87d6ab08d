"""Tools of real MCP servers: processes over stdio and over HTTP on the loopback."""

import asyncio
import logging
import os
import signal
import socket
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from mcp import StdioServerParameters

from durable_adk.activities.user_code.event_loop import UserCodeLoop
from durable_adk.tools.base_toolset import load_tools
from durable_adk.tools.mcp_tool import (
    McpToolset,
    SseConnectionParams,
    StdioConnectionParams,
    StreamableHTTPConnectionParams,
    mcp_toolset,
)
from durable_adk.tools.mcp_tool._connection import McpConnectionError
from tests.support.bounds import bounded, within
from tests.support.waiting import PATIENCE, until

pytestmark = pytest.mark.thorough

STUB = Path(__file__).parents[1] / "stubs" / "mcp_stub.py"


class Log:
    """What the server wrote down."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "server.log"

    def __call__(self, start: str = "") -> list[str]:
        lines = self.path.read_text().splitlines() if self.path.exists() else []
        return [line for line in lines if line.startswith(start)]

    async def wait_for(self, start: str, count: int = 1) -> None:
        await until(lambda: len(self(start)) >= count)

    def pid(self) -> int:
        return int(self("start")[-1].split()[1])


@pytest.fixture
def log(tmp_path: Path) -> Log:
    """The log of the test's servers."""
    return Log(tmp_path)


@pytest.fixture
async def stdio(log: Log) -> AsyncIterator[Callable[..., McpToolset]]:
    """Make toolsets whose server is a process of theirs."""
    made: list[McpToolset] = []

    def make(*args: str, timeout: float = PATIENCE, hang: str = "", **options: Any) -> McpToolset:
        server = StdioServerParameters(
            command=sys.executable,
            args=list(args) or [str(STUB), str(log.path)],
            env={"HANG": hang},
        )
        params = StdioConnectionParams(server_params=server, timeout=timeout)
        made.append(McpToolset(connection_params=params, **options))
        return made[-1]

    yield make
    for toolset in made:
        await toolset.close()


class HttpServer:
    """A server on one port that can be killed and started again."""

    def __init__(self, log: Log, *arguments: str) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port: int = free.getsockname()[1]
        self._command = [sys.executable, str(STUB), str(log.path), str(self.port), *arguments]

    async def start(self) -> None:
        quiet = {"stdout": asyncio.subprocess.DEVNULL, "stderr": asyncio.subprocess.DEVNULL}
        self._process = await asyncio.create_subprocess_exec(*self._command, **quiet)
        await until(self.accepts)

    async def accepts(self) -> bool:
        try:
            _, writer = await asyncio.open_connection("127.0.0.1", self.port)
        except OSError:
            return False
        writer.close()
        return True

    async def kill(self) -> None:
        if self._process.returncode is None:
            self._process.kill()
            await self._process.wait()


@pytest.fixture(params=["streamable-http", "sse"])
async def http(request: pytest.FixtureRequest, log: Log) -> AsyncIterator[HttpServer]:
    """A running server, with each HTTP transport."""
    server = HttpServer(log, *([request.param] if request.param == "sse" else []))
    server.path = request.param
    await server.start()
    yield server
    await server.kill()


def http_toolset(server: HttpServer, **options: Any) -> McpToolset:
    """A toolset of that server."""
    kind = SseConnectionParams if server.path == "sse" else StreamableHTTPConnectionParams
    path = "sse" if server.path == "sse" else "mcp"
    url = f"http://127.0.0.1:{server.port}/{path}?key=secret-in-url"
    headers = {"authorization": "Bearer secret-in-header"}
    params = kind(url=url, headers=headers, timeout=PATIENCE)
    return McpToolset(connection_params=params, **options)


def context(**values: Any) -> Any:
    """As much of a tool's context as the tool uses."""
    return SimpleNamespace(
        **{"idempotency_key": "run:call", "tool_confirmation": None, "user_id": "u", **values}
    )


async def call(toolset: McpToolset, name: str, ctx: Any = None, **args: Any) -> dict[str, Any]:
    """Call a tool as the runtime does: list, find, run."""
    ctx = ctx or context()
    tools = {tool.name: tool for tool in await toolset.get_tools_with_prefix(ctx)}
    return await tools[name].run_async(args=args, tool_context=ctx)


async def test_a_result_has_adks_form(stdio: Callable[..., McpToolset]) -> None:
    """TOL-29: content, structured content and the error flag come as in ADK 2.13."""
    toolset = stdio()
    assert await call(toolset, "add", a=1) == {
        "content": [{"type": "text", "text": "3"}],
        "structuredContent": {"result": 3},
        "isError": False,
    }
    moved = await call(toolset, "move", point={"x": 1})
    assert moved["structuredContent"] == {"x": 2, "y": None}


async def test_a_tool_is_declared_as_the_server_describes_it(
    stdio: Callable[..., McpToolset],
) -> None:
    """The model gets the server's description and schema."""
    tools = {tool.name: tool for tool in await stdio().get_tools()}
    declaration = tools["add"].get_declaration()
    assert declaration is not None
    assert declaration.description == "Add two numbers."
    assert declaration.parameters_json_schema["required"] == ["a"]


async def test_a_kept_list_is_not_changed_by_who_gets_it(stdio: Callable[..., McpToolset]) -> None:
    """TRAP-23: a callback may change a tool and its declaration; the next step has them anew."""
    toolset = stdio()
    for _ in range(2):
        tool: Any = next(tool for tool in await toolset.get_tools() if tool.name == "add")
        declaration = tool.get_declaration()
        assert tool.description == "Add two numbers."
        assert declaration.parameters_json_schema["required"] == ["a"]
        assert tool.raw_mcp_tool.input_schema["required"] == ["a"]
        tool.description = "Spoiled."
        declaration.parameters_json_schema.clear()
        tool.raw_mcp_tool.input_schema.clear()


async def test_an_error_goes_to_the_model(stdio: Callable[..., McpToolset]) -> None:
    """A tool that fails, bad arguments and results that cannot be stored do not end the run."""
    toolset = stdio()
    assert (await call(toolset, "fail", why="me"))["error"].startswith("Error executing tool fail")
    assert "valid integer" in (await call(toolset, "add", a="x"))["error"]
    assert "NUL" in (await call(toolset, "odd", kind="nul"))["error"]
    assert "bytes" in (await call(toolset, "odd", kind="large"))["error"]


async def test_tools_are_listed_once(stdio: Callable[..., McpToolset], log: Log) -> None:
    """Peers 66: many requests at once and one after another, with calls between, list once."""
    toolset = stdio()
    await asyncio.gather(*(toolset.get_tools() for _ in range(20)))
    for number in range(10):
        await call(toolset, "add", a=number)
    assert len(log("list")) == 1
    assert len(log("start")) == 1
    toolset.refresh()
    await toolset.get_tools()
    assert len(log("list")) == 2


async def test_a_list_serves_for_its_time(
    stdio: Callable[..., McpToolset], log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`tool_list_cache_ttl_seconds` bounds how old a list may be."""
    now = 1000.0
    monkeypatch.setattr(mcp_toolset, "time", SimpleNamespace(monotonic=lambda: now))
    toolset = stdio(tool_list_cache_ttl_seconds=60.0)
    await toolset.get_tools()
    now += 59.0
    await toolset.get_tools()
    assert len(log("list")) == 1
    now += 1.0
    await toolset.get_tools()
    assert len(log("list")) == 2


async def test_announced_tools_are_seen(stdio: Callable[..., McpToolset]) -> None:
    """A server that says its tools have changed is asked again."""
    toolset = stdio()
    await call(toolset, "grow")

    async def is_seen() -> bool:
        return "grown" in [tool.name for tool in await toolset.get_tools()]

    await until(is_seen)


async def test_calls_run_side_by_side(stdio: Callable[..., McpToolset], log: Log) -> None:
    """Two calls share a session and do not wait for each other."""
    toolset = stdio()
    await toolset.get_tools()
    both = [asyncio.create_task(call(toolset, "wait", seconds=3600)) for _ in range(2)]
    await log.wait_for("wait", 2)
    assert len(log("start")) == 1
    for one in both:
        one.cancel()
    await asyncio.gather(*both, return_exceptions=True)


async def test_a_killed_process_is_started_again(
    stdio: Callable[..., McpToolset], log: Log
) -> None:
    """TOL-29: a session that has ended is opened anew, within the call and without a listing."""
    toolset = stdio()
    await call(toolset, "add", a=1)
    os.kill(log.pid(), signal.SIGKILL)
    assert (await call(toolset, "add", a=2))["structuredContent"] == {"result": 4}
    assert len(log("start")) == 2
    assert len(log("list")) == 1


async def test_a_restarted_server_is_found_again(http: HttpServer, log: Log) -> None:
    """Peers 21: a server that has forgotten its sessions gets a new one, within the call."""
    toolset = http_toolset(http)
    await call(toolset, "add", a=1)
    await http.kill()
    await http.start()
    assert (await call(toolset, "add", a=2))["structuredContent"] == {"result": 4}
    await toolset.close()


async def test_a_server_that_is_away_is_an_error_for_the_model(
    http: HttpServer, caplog: pytest.LogCaptureFixture
) -> None:
    """The known list serves on, the call answers at once, and no credential is in what it says."""
    caplog.set_level(logging.DEBUG, "durable_adk")
    toolset = http_toolset(http)
    await call(toolset, "add", a=1)
    await http.kill()
    answer = await call(toolset, "add", a=2)
    assert "127.0.0.1" in answer["error"]
    again = await call(toolset, "add", a=3)
    assert "error" in again
    said = f"{answer} {again} {toolset!r} " + " ".join(
        str(vars(record)) for record in caplog.records if record.name.startswith("durable_adk")
    )
    assert "secret" not in said
    await http.start()
    assert (await call(toolset, "add", a=4))["structuredContent"] == {"result": 6}
    await toolset.close()


async def test_a_server_that_dies_during_a_call_is_noticed(http: HttpServer, log: Log) -> None:
    """A call whose server is gone does not wait for its timeout."""
    toolset = http_toolset(http)
    waiting = asyncio.create_task(call(toolset, "wait", seconds=3600))
    await log.wait_for("wait")
    await http.kill()
    assert "error" in await asyncio.wait_for(waiting, PATIENCE)
    await toolset.close()


async def test_a_call_that_kills_its_server_is_tried_once_more(
    stdio: Callable[..., McpToolset], log: Log
) -> None:
    """At least once: a call cut off is repeated, but not for ever."""
    toolset = stdio()
    assert "error" in await call(toolset, "exit_now")
    assert len(log("exit_now")) == 2


@bounded
async def test_a_cancelled_call_frees_the_caller(
    stdio: Callable[..., McpToolset], log: Log
) -> None:
    """The caller continues at once, the server is notified, and the session serves other calls."""
    toolset = stdio()
    waiting, other = [asyncio.create_task(call(toolset, "wait", seconds=3600)) for _ in range(2)]
    await log.wait_for("wait", 2)
    waiting.cancel()
    with (
        within(1.5, "a cancelled MCP call frees its caller"),
        pytest.raises(asyncio.CancelledError),
    ):
        await asyncio.wait_for(waiting, PATIENCE)
    await log.wait_for("wait cancelled")
    assert (await call(toolset, "add", a=1))["structuredContent"] == {"result": 3}
    assert not other.done()
    assert len(log("start")) == 1
    other.cancel()
    await asyncio.gather(other, return_exceptions=True)


@bounded
@pytest.mark.parametrize("hang", ["connect", "list"])
async def test_a_hanging_server_is_skipped(
    stdio: Callable[..., McpToolset], log: Log, caplog: pytest.LogCaptureFixture, hang: str
) -> None:
    """AGT-24: a toolset that does not answer is logged and left out, in its time."""
    silent = ["-c", "import sys; sys.stdin.read()"] if hang == "connect" else []
    toolset = stdio(*silent, hang=hang)
    if hang == "list":
        await toolset._sessions.call(lambda session: session.send_ping())
    toolset._sessions.connection_params.timeout = 0.5
    with within(9, "an MCP server that hangs for 0.5 s is left out"):
        assert await load_tools(toolset, timeout=PATIENCE) is None
    assert bool(log("list")) is (hang == "list")
    record = next(record for record in caplog.records if record.message == "toolset.skipped")
    assert "no answer in 0.5 s" in record.error
    assert record.toolset == repr(toolset)


@bounded
async def test_a_silent_port_is_skipped(caplog: pytest.LogCaptureFixture) -> None:
    """AGT-24: so is an HTTP server that accepts the connection and says nothing."""

    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()

    server = await asyncio.start_server(silent, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/mcp"
    toolset = McpToolset(connection_params=StreamableHTTPConnectionParams(url=url, timeout=0.3))
    with within(4, "a silent port is left out after 0.3 s"):
        assert await load_tools(toolset, timeout=PATIENCE) is None
    (record,) = [record for record in caplog.records if record.message == "toolset.skipped"]
    assert "no answer in 0.3 s" in record.error
    await toolset.close()
    server.close()
    await server.wait_closed()


async def test_a_missing_command_is_skipped() -> None:
    """AGT-24: so is a server that cannot be started."""
    server = StdioServerParameters(command="/nowhere/no-such-server")
    assert await load_tools(McpToolset(connection_params=server)) is None


@bounded
async def test_closing_is_bounded(stdio: Callable[..., McpToolset], tmp_path: Path) -> None:
    """RUN-11: a server that ignores its end is not waited for."""
    ready = tmp_path / "ready"
    deaf = (
        "import signal, time, pathlib; signal.signal(signal.SIGTERM, signal.SIG_IGN);"
        f"pathlib.Path({str(ready)!r}).touch(); time.sleep(3600)"
    )
    toolset = stdio("-c", deaf)
    asking = asyncio.create_task(toolset.get_tools())
    await until(ready.exists)
    with within(10, "an MCP server that ignores its end is left"):
        await asyncio.wait_for(toolset.close(), PATIENCE)
    with pytest.raises(McpConnectionError, match="it was closed"):
        await asking


async def test_a_closed_toolset_can_be_used_again(
    stdio: Callable[..., McpToolset], log: Log
) -> None:
    """Closing ends the process; the next call starts another."""
    toolset = stdio()
    await call(toolset, "add", a=1)
    await toolset.close()
    with pytest.raises(ProcessLookupError):
        os.kill(log.pid(), 0)
    assert (await call(toolset, "add", a=2))["structuredContent"] == {"result": 4}


async def test_each_event_loop_has_a_session_of_its_own(
    stdio: Callable[..., McpToolset], log: Log
) -> None:
    """A toolset serves the loop of user code and this one, and closes what it opened in each."""
    toolset, loop = stdio(), UserCodeLoop()
    there = await loop.run(call(toolset, "add", a=1))
    assert there == await call(toolset, "add", a=1)
    assert len(log("start")) == 2
    await loop.run(toolset.close())
    await toolset.close()
    await loop.close()


async def test_headers_are_each_users_own(http: HttpServer) -> None:
    """A header provider sees the step's context, and sessions are not shared between headers."""
    toolset = http_toolset(http, header_provider=lambda ctx: {"x-user": ctx.user_id})
    users = ["ann", "bob", "ann"]
    told = [await call(toolset, "told", context(user_id=user)) for user in users]
    if http.path != "sse":  # where the request of a call is not at hand on the server
        assert [answer["structuredContent"]["user"] for answer in told] == users
    await toolset.close()


async def test_a_call_carries_its_idempotency_key(stdio: Callable[..., McpToolset]) -> None:
    """DUR-9: the server can tell a repeated call from a second one."""
    answer = await call(stdio(), "told")
    assert answer["structuredContent"]["meta"]["durable-adk/idempotencyKey"] == "run:call"


async def test_a_prefix_is_for_the_model_only(stdio: Callable[..., McpToolset]) -> None:
    """TOL-28: the filter and the server know the tool's own name, the model the prefixed one."""
    toolset = stdio(tool_filter=["add"], tool_name_prefix="calc")
    (tool,) = await toolset.get_tools_with_prefix()
    assert tool.name == "calc_add"
    declaration = tool.get_declaration()
    assert declaration is not None
    assert declaration.name == "calc_add"
    assert (await call(toolset, "calc_add", a=1))["structuredContent"] == {"result": 3}


async def test_a_call_waits_for_its_confirmation(
    stdio: Callable[..., McpToolset], log: Log
) -> None:
    """TOL-60: the server is not called before somebody has agreed; a predicate sees the call."""
    asked: list[str] = []
    toolset = stdio(require_confirmation=lambda a: a > 1)
    waiting = context(request_confirmation=lambda *, hint: asked.append(hint))
    rejected = context(tool_confirmation=SimpleNamespace(confirmed=False))
    agreed = context(tool_confirmation=SimpleNamespace(confirmed=True))
    assert "error" in await call(toolset, "add", waiting, a=2)
    assert len(asked) == 1
    assert "rejected" in (await call(toolset, "add", rejected, a=2))["error"]
    assert log("add") == []
    assert "structuredContent" in await call(toolset, "add", agreed, a=2)
    assert "structuredContent" in await call(toolset, "add", waiting, a=1)
