"""The page about models says what works, and its example asks a real server."""

import re
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from durable_adk.cli.server import load_app
from durable_adk.errors import ModelError
from durable_adk.runners import InMemoryRunner
from tests.stubs.openai_stub import OpenAIStub

ROOT = Path(__file__).parents[2]
EXAMPLE = str(ROOT / "examples" / "chat_completions")
PAGE = (ROOT / "docs" / "start" / "models.md").read_text()
BLOCKS = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)


@pytest.fixture(scope="module")
async def server() -> AsyncIterator[OpenAIStub]:
    """A server that the example asks; its module reads the address when it is imported."""
    stub = OpenAIStub()
    await stub.start()
    forget_example()  # it may have been imported without a key, so that it asks no server
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setenv("OPENAI_API_KEY", "key-5e1f")
        monkeypatch.setenv("OPENAI_BASE_URL", stub.url)
        monkeypatch.setenv("OPENAI_MODEL", "small-1")
        yield stub
    forget_example()
    await stub.close()


def forget_example() -> None:
    """Have the example imported anew."""
    for name in list(sys.modules):
        if name.partition(".")[0] == Path(EXAMPLE).name:
            del sys.modules[name]


@pytest.fixture
def stub(server: OpenAIStub) -> OpenAIStub:
    """The server, with an empty script."""
    server.script, server.requests = [], []
    return server


async def ask() -> list[str]:
    """Run the example in process with one message; the texts of its events."""
    async with InMemoryRunner(app=load_app(EXAMPLE)) as runner:
        events = await runner.run_debug("Lima and Rome?", quiet=True)
    return [event.text for event in events]


def test_the_pages_python_runs() -> None:
    """Imports, names and arguments of each piece are those of the package."""
    assert len(BLOCKS) >= 3
    for number, block in enumerate(BLOCKS):
        names: dict[str, Any] = {"__name__": f"models_{number}"}
        exec(compile(block, f"models.md, block {number}", "exec"), names)  # noqa: S102
        assert len(names) > 2


async def test_the_pages_model_answers() -> None:
    """A `BaseLlm` written as the page says is asked, and its response is the agent's."""
    names: dict[str, Any] = {"__name__": "models_page"}
    exec(compile(BLOCKS[0], "models.md, block 0", "exec"), names)  # noqa: S102
    async with InMemoryRunner(names["root_agent"]) as runner:
        (event,) = await runner.run_debug("Hello", quiet=True)
    assert event.text == "HELLO"


async def test_the_example_calls_tools_and_answers(stub: OpenAIStub) -> None:
    """Two calls at once run and their results go back under their ids, then the text comes."""
    stub.script = [
        [("weather", {"city": "Lima"}), ("weather", {"city": "Quito"})],
        "Rain in Lima, sun in Quito.",
    ]
    assert (await ask())[-1] == "Rain in Lima, sun in Quito."
    first, second = stub.requests
    assert first["authorization"] == "Bearer key-5e1f"
    assert first["model"] == "small-1"
    assert [one["role"] for one in first["messages"]] == ["system", "user"]
    (tool,) = first["tools"]
    assert tool["function"]["name"] == "weather"
    assert tool["function"]["parameters"]["required"] == ["city"]
    made, *results = second["messages"][2:]
    assert [call["id"] for call in made["tool_calls"]] == ["call_0_0", "call_0_1"]
    assert [one["tool_call_id"] for one in results] == ["call_0_0", "call_0_1"]
    assert '"rainy"' in results[0]["content"]
    assert '"sunny"' in results[1]["content"]


async def test_the_example_is_asked_again_when_the_server_is_busy(stub: OpenAIStub) -> None:
    """Overload is passed on with the server's delay, and a later attempt gets the response."""
    busy = {"status": 429, "body": {"error": {"message": "slow down"}}}
    stub.script = [busy | {"headers": {"retry-after": "0"}}, "Here I am."]
    assert await ask() == ["Here I am."]
    assert len(stub.requests) == 2


async def test_the_example_ends_the_run_with_the_servers_words(stub: OpenAIStub) -> None:
    """A wrong key is not retried."""
    body = {"error": {"message": "Incorrect API key provided"}}
    stub.script = [{"status": 401, "body": body}]
    with pytest.raises(ModelError, match=r"401 .*Incorrect API key provided"):
        await ask()
    assert len(stub.requests) == 1
