"""The one-line runtime."""

import inspect
import textwrap

import pytest

from durable_adk.agents import LlmAgent
from durable_adk.embedded import TemporalServer, embedded_runner
from durable_adk.models import ScriptedModel
from durable_adk.sessions import InMemorySessionService
from tests.support.scripts import USER, send


def agent(*replies: str) -> LlmAgent:
    return LlmAgent(name="greeter", model=ScriptedModel(replies=list(replies)))


async def test_the_example_in_the_docstring_runs(tmp_path, monkeypatch, capsys):
    """What the documentation shows works as it stands, in the folder one is in."""
    monkeypatch.chdir(tmp_path)
    text = inspect.getdoc(embedded_runner)
    assert text
    example = textwrap.dedent(text.partition("::\n")[2].partition("Sessions that")[0])
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
