"""google-adk's own tools and toolsets, run by google-adk's runner and by ours on Temporal."""

import http.server
import os
import socket
import sys
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import urllib3.util.connection
from google.adk.runners import InMemoryRunner as AdkRunner
from google.adk.skills import Frontmatter, Resources, Skill
from google.adk.tools.load_web_page import load_web_page
from google.adk.tools.mcp_tool.mcp_session_manager import StdioConnectionParams
from google.adk.tools.mcp_tool.mcp_toolset import McpToolset
from google.adk.tools.openapi_tool import OpenAPIToolset
from google.adk.tools.skill_toolset import SkillToolset
from mcp import StdioServerParameters
from pydantic import BaseModel
from temporalio.client import Client

from durable_adk.apps import App
from durable_adk.runners import Runner
from durable_adk.sessions import SqliteSessionService
from durable_adk.worker import WorkerOptions, worker
from tests.interop.objects.running import call, llm
from tests.support.required import module

MCP_STUB = Path(__file__).parents[2] / "stubs" / "mcp_stub.py"
Results = list[Any]
RunBoth = Callable[..., Awaitable[Results]]


def results(events: list[Any]) -> Results:
    """What the calls returned, then what was said."""
    answers = [one.response for event in events for one in event.get_function_responses()]
    parts = [part for event in events for part in (event.content and event.content.parts) or []]
    return [*answers, *(part.text for part in parts if part.text)]


@pytest.fixture
async def run_both(client: Client, tmp_path: Path) -> AsyncIterator[RunBoth]:
    """Have a new agent with a tool make calls in each runtime; what comes is the same, once."""
    async with AsyncExitStack() as stack:

        async def run(make_tool: Callable[[], Any], *calls: Any, messages: int = 1) -> Results:
            def agent() -> Any:
                return llm("a", *[*calls, "done"] * messages, tools=[make_tool()])

            async with AdkRunner(agent(), app_name="app") as adk:
                theirs = [await adk.run_debug("go", quiet=True) for _ in range(messages)]
            queue = f"toolsets-{tmp_path.name}"
            sessions = SqliteSessionService(tmp_path / "sessions.db")
            stack.push_async_callback(sessions.close)
            app = App(name="app", root_agent=agent())
            options = WorkerOptions(task_queue=queue)
            stores = {"session_service": sessions}
            runner = Runner(
                app=app, client=client, task_queue=queue, auto_create_session=True, **stores
            )
            async with worker(client, apps=[app], options=options, **stores), runner:
                ours = [await runner.run_debug("go", quiet=True) for _ in range(messages)]
            assert [results(events) for events in ours] == [results(events) for events in theirs]
            return results(ours[-1])

        yield run


async def test_an_mcp_server_is_started_once_and_ended_with_the_worker(
    run_both: RunBoth, tmp_path: Path
) -> None:
    """Over two messages, with a result and an error of a tool."""
    logs: list[Path] = []

    def toolset() -> McpToolset:
        logs.append(tmp_path / f"server-{len(logs)}.log")
        server = StdioServerParameters(command=sys.executable, args=[str(MCP_STUB), str(logs[-1])])
        return McpToolset(connection_params=StdioConnectionParams(server_params=server, timeout=30))

    added, failed, said = await run_both(
        toolset, call("add", a=1), call("fail", why="me"), messages=2
    )
    assert added["structuredContent"] == {"result": 3}
    assert failed["isError"]
    assert said == "done"
    ours = logs[1].read_text().splitlines()
    [started] = [line for line in ours if line.startswith("start")]
    with pytest.raises(ProcessLookupError):
        os.kill(int(started.split()[1]), 0)
    assert sum(line.startswith("add") for line in ours) == 2


PETS = """
openapi: 3.0.0
info: {title: Pets, version: "1"}
servers: [{url: "%s"}]
paths:
  /pets/{name}:
    get:
      operationId: getPet
      parameters: [{name: name, in: path, required: true, schema: {type: string}}]
      responses: {"200": {description: The pet.}}
"""


class Site(http.server.BaseHTTPRequestHandler):
    """A pet store for programs, and for people at /."""

    def do_GET(self) -> None:
        """Answer what is asked for."""
        page = b"<p>All of our pets are well.</p><p>Short.</p>"
        is_pet = self.path.startswith("/pets/")
        body = b'{"pet": "%s"}' % self.path.removeprefix("/pets/").encode() if is_pet else page
        self.send_response(200)
        self.send_header("Content-Type", "application/json" if is_pet else "text/html")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        """Say nothing."""


@pytest.fixture
def port() -> Iterator[int]:
    """Where the site is."""
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Site) as site:
        thread = threading.Thread(target=site.serve_forever)
        thread.start()
        yield site.server_address[1]
        site.shutdown()
        thread.join()


async def test_the_operations_of_an_openapi_document_are_tools(
    run_both: RunBoth, port: int
) -> None:
    """The server's answer is the call's result."""
    document = PETS % f"http://127.0.0.1:{port}"

    def toolset() -> OpenAPIToolset:
        return OpenAPIToolset(
            spec_str=document, spec_str_type="yaml", allow_private_network_access=True
        )

    assert await run_both(toolset, call("get_pet", name="rex")) == [{"pet": "rex"}, "done"]


async def test_a_web_page_is_loaded(
    run_both: RunBoth, port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From a host with a public address; one on the loopback is refused, as in google-adk.

    The name is resolved to an address that is reserved for documents, and what connects to that
    address gets the server here: `load_web_page` checks both and runs unchanged.
    """
    public, resolve = "93.184.215.14", socket.getaddrinfo
    connect = urllib3.util.connection.create_connection

    def resolved(host: Any, *args: Any, **options: Any) -> Any:
        return resolve(public if host == "pets.example" else host, *args, **options)

    def connected(address: tuple[str, int], *args: Any, **options: Any) -> Any:
        assert address == (public, 80)
        return connect(("127.0.0.1", port), *args, **options)

    monkeypatch.setattr(socket, "getaddrinfo", resolved)
    monkeypatch.setattr(urllib3.util.connection, "create_connection", connected)
    for variable in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(variable, raising=False)
    page, refused, _ = await run_both(
        lambda: load_web_page,
        call("load_web_page", url="http://pets.example/"),
        call("load_web_page", url=f"http://127.0.0.1:{port}/"),
    )
    assert page == {"result": "All of our pets are well."}
    assert "127.0.0.1" in str(refused)


async def test_a_tool_of_langchain_is_called(run_both: RunBoth) -> None:
    """With the names and types of its function."""
    structured = module("langchain_core.tools").StructuredTool
    from google.adk.integrations.langchain import LangchainTool  # noqa: PLC0415 - imports langchain

    def weigh(pet: str, grams: int) -> str:
        """Weigh a pet."""
        return f"{pet}: {grams} g"

    def tool() -> LangchainTool:
        return LangchainTool(structured.from_function(weigh))

    assert await run_both(tool, call("weigh", pet="rex", grams=7)) == [
        {"result": "rex: 7 g"},
        "done",
    ]


async def test_a_tool_of_crewai_is_called(
    run_both: RunBoth, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By google-adk's adapter, which takes an object of the shape of crewai's tools here.

    crewai itself is too large to be installed for it.
    """

    class Weights(BaseModel):
        pet: str
        grams: int

    class Weigh:
        name, description, args_schema = "Weigh Pet", "Weighs a pet.", Weights

        def run(self, pet: str, **more: Any) -> str:
            return f"{pet}: {more['grams']} g"

    stand_in = ModuleType("crewai.tools")
    vars(stand_in)["BaseTool"] = Weigh
    monkeypatch.setitem(sys.modules, "crewai", ModuleType("crewai"))
    monkeypatch.setitem(sys.modules, "crewai.tools", stand_in)
    from google.adk.integrations.crewai import CrewaiTool  # noqa: PLC0415 - imports crewai

    answer = await run_both(
        lambda: CrewaiTool(Weigh(), name=""), call("weigh_pet", pet="rex", grams=7)
    )
    assert answer == [{"result": "rex: 7 g"}, "done"]


async def test_skills_are_listed_loaded_and_read(run_both: RunBoth) -> None:
    """What a skill has reaches the model by the toolset's own tools, which write state."""
    skill = Skill(
        frontmatter=Frontmatter(name="feeding", description="How to feed pets."),
        instructions="Feed them twice.",
        resources=Resources(references={"fish.md": "Fish eat flakes."}),
    )
    listed, loaded, read, _ = await run_both(
        lambda: SkillToolset(skills=[skill]),
        call("list_skills"),
        call("load_skill", skill_name="feeding"),
        call("load_skill_resource", skill_name="feeding", file_path="references/fish.md"),
    )
    assert "How to feed pets." in str(listed)
    assert loaded["instructions"] == "Feed them twice."
    assert read["content"] == "Fish eat flakes."
