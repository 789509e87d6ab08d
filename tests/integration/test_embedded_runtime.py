"""The one-line runtime."""

import inspect
import textwrap

import pytest
from google.genai import types
from temporalio.client import WorkflowExecution

from durable_adk.agents import LlmAgent
from durable_adk.client import connect
from durable_adk.context.activity import CallbackContext
from durable_adk.embedded import TemporalServer, embedded_runner
from durable_adk.memory import InMemoryMemoryService, MemoryEntry
from durable_adk.models import ScriptedModel
from durable_adk.runners import Runner
from durable_adk.sessions import InMemorySessionService
from durable_adk.tools.tool_context import ToolContext
from tests.support.scripts import USER, call, send
from tests.support.waiting import until

pytestmark = pytest.mark.thorough


def agent(*replies: str) -> LlmAgent:
    return LlmAgent(name="greeter", model=ScriptedModel(replies=list(replies)))


async def test_the_example_in_the_docstring_runs(tmp_path, monkeypatch, capsys):
    """What the documentation shows works unchanged, in the current folder."""
    monkeypatch.chdir(tmp_path)
    text = inspect.getdoc(embedded_runner)
    assert text
    example = textwrap.dedent(text.partition("::\n")[2].partition("Missing sessions")[0])
    source = f"async def main():\n{textwrap.indent(example, '    ')}"
    scope = {"embedded_runner": embedded_runner, "root_agent": agent("Good morning!")}
    exec(source, scope)  # noqa: S102  # the documentation's own code
    await scope["main"]()
    assert capsys.readouterr().out == "greeter Good morning!\n"
    assert (tmp_path / ".durable-adk" / "sessions.db").exists()
    assert await TemporalServer.find(tmp_path / ".durable-adk") is None


async def test_what_was_said_is_there_the_next_time(tmp_path):
    """Server and store come and go; the session stays in the folder."""
    async with embedded_runner(agent("one"), data_dir=tmp_path) as runner:
        await send(runner)
    async with embedded_runner(agent("one", "two"), data_dir=tmp_path) as runner:
        await send(runner)
        session = await runner.session_service.get_session(app_name="greeter", **USER)
    assert session
    assert [event.text for event in session.events] == ["hello", "one", "hello", "two"]


def fails(callback_context: CallbackContext) -> None:
    """As an agent's code does that is about to be mended."""
    raise ZeroDivisionError


async def to_the_end(runner: Runner) -> None:
    """All events."""
    await send(runner)


async def to_the_error(runner: Runner) -> None:
    """There is no answer."""
    with pytest.raises(ZeroDivisionError):
        await send(runner)


async def to_the_answer(runner: Runner) -> None:
    """No further than what is shown."""
    async for event in runner.run_async(**USER, new_message="hello"):
        if event.is_final_response():
            break


@pytest.mark.parametrize(
    ("callback", "follow", "status"),
    [
        (None, to_the_end, "COMPLETED"),
        (None, to_the_answer, "COMPLETED"),
        (fails, to_the_error, "FAILED"),
    ],
)
async def test_nothing_is_left_open_by_a_process_that_sends_one_message(
    tmp_path, callback, follow, status
):
    """I11: else its code is changed, and the workflow does not replay when there is a worker."""
    one = agent("one")
    one.before_agent_callback = callback
    async with embedded_runner(one, data_dir=tmp_path) as runner:
        await follow(runner)
    async with TemporalServer.start(data_dir=tmp_path, headless=True) as server:
        client = await connect(server.address)

        async def listed() -> list[WorkflowExecution]:
            return [run async for run in client.list_workflows()]

        (run,) = await until(listed)
        described = await client.get_workflow_handle(run.id).describe()
        assert described.status
        assert described.status.name == status


async def keep(tool_context: ToolContext) -> dict[str, object]:
    """Save an artifact and a memory; say what was there before."""
    found = await tool_context.search_memory("tea")
    before = {"files": await tool_context.list_artifacts(), "memories": len(found.memories)}
    await tool_context.save_artifact("note.txt", types.Part(text="tea"))
    likes = types.Content(role="user", parts=[types.Part(text="I like tea")])
    await tool_context.add_memory(memories=[MemoryEntry(content=likes)])
    return before


def keeper() -> LlmAgent:
    replies = [call("keep"), "kept"] * 2
    return LlmAgent(name="keeper", model=ScriptedModel(replies=replies), tools=[keep])


async def kept(runner) -> dict[str, object]:
    """What the tool found."""
    events = await send(runner)
    return events[1].get_function_responses()[0].response


async def test_artifacts_and_memories_are_in_the_folder(tmp_path):
    """Tools of the next runtime on the folder find what those of this one have saved."""
    async with embedded_runner(keeper(), data_dir=tmp_path) as runner:
        assert await kept(runner) == {"files": [], "memories": 0}
    async with embedded_runner(keeper(), data_dir=tmp_path) as runner:
        assert await kept(runner) == {"files": ["note.txt"], "memories": 1}
    assert {"artifacts", "credentials", "memory.db"} <= {path.name for path in tmp_path.iterdir()}


async def test_a_service_of_ones_own_takes_the_folders_place(tmp_path):
    """What is passed is used by tools and runner, and nothing is made in the folder for it."""
    memory = InMemoryMemoryService()
    async with embedded_runner(keeper(), data_dir=tmp_path, memory_service=memory) as runner:
        await kept(runner)
        assert runner.memory_service is memory
    found = await memory.search_memory(app_name="keeper", user_id=USER["user_id"], query="tea")
    assert len(found.memories) == 1
    assert not (tmp_path / "memory.db").exists()


async def test_a_folder_has_one_server(tmp_path):
    """A second runtime on the folder uses the first one's server, and leaves it running."""
    async with embedded_runner(agent("outer"), data_dir=tmp_path) as outer:
        first = await TemporalServer.find(tmp_path)
        other = LlmAgent(name="other", model=ScriptedModel(replies=["inner"]))
        async with embedded_runner(other, data_dir=tmp_path) as inner:
            assert [event.text for event in await send(inner)] == ["inner"]
        assert await TemporalServer.find(tmp_path) == first
        assert [event.text for event in await send(outer)] == ["outer"]


async def test_an_error_in_the_block_is_not_hidden(tmp_path):
    """What the caller's code raises comes out, and everything is stopped."""
    service = InMemorySessionService()
    with pytest.raises(KeyError, match="mine"):
        async with embedded_runner(agent(), data_dir=tmp_path, session_service=service):
            raise KeyError("mine")
    assert await TemporalServer.find(tmp_path) is None
