"""The package without its extras."""

import re
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterator
from types import ModuleType

import pytest

from durable_adk import extras
from durable_adk.agents import LlmAgent
from durable_adk.agents.callback_context import CallbackContext
from durable_adk.errors import AgentDefinitionError
from durable_adk.models import LLMRegistry, ScriptedModel
from durable_adk.runners import InMemoryRunner
from tests.support.required import ROOT

WITHOUT = """
import sys
for name in ("cryptography", "mcp", "obstore", "redis", "standardwebhooks", "starlette", "uvicorn"):
    sys.modules[name] = None  # as if not installed
import durable_adk.embedded, durable_adk.runners
from durable_adk.cli.commands.declaration import loaded
from durable_adk.cli.program import declared
from durable_adk.artifacts import artifacts_at
from durable_adk.auth.credential_service.postgres_credential_service import (
    PostgresCredentialService,
)
from durable_adk.ops.codec_server import application
from durable_adk.encryption import EncryptionCodec
from durable_adk.errors import CallerError
from durable_adk.partials import RedisPartials
from durable_adk.plugin import DurableAdkPlugin
from durable_adk.settings import Webhooks
from durable_adk.tools.mcp_tool import (
    McpToolset, StdioConnectionParams, StreamableHTTPConnectionParams
)
for command in declared():
    loaded(command.work)
for make in (
    lambda: application(None, None),
    lambda: EncryptionCodec(keys=None),
    lambda: PostgresCredentialService("postgresql://localhost/x", keys=None),
    lambda: McpToolset(connection_params=StdioConnectionParams(server_params=None)),
    lambda: McpToolset(connection_params=StreamableHTTPConnectionParams(url="http://x/mcp")),
    lambda: artifacts_at("s3://bucket"),
    lambda: RedisPartials("redis://localhost"),
    lambda: DurableAdkPlugin(webhooks=Webhooks(endpoints=())),
):
    try:
        make()
    except CallerError as error:
        print(type(error).__name__, str(error).partition("pip ")[2])
artifacts_at("a folder")
"""
NOT_LOADED = "import sys, durable_adk.runners, durable_adk.agents;print('mcp' in sys.modules)"


NO_A2A = """
import sys
sys.modules["a2a"] = None  # as if not installed
from durable_adk.server.app import app
from durable_adk.sessions import InMemorySessionService
paths = app(session_service=InMemorySessionService(), client=None).openapi()["paths"]
print("/run" in paths, any(path.startswith("/a2a") for path in paths))
"""


def run(code: str) -> list[str]:
    """What the code prints in a process of its own."""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return done.stdout.splitlines()


def test_what_needs_an_extra_names_it() -> None:
    """All modules can be imported without extras; what needs one says how to install it."""
    extras = ["codec", "encryption", "encryption", "mcp", "mcp", "objects", "redis", "webhooks"]
    kinds = [
        "AgentDefinitionError" if extra == "mcp" else "InvalidRequestError" for extra in extras
    ]
    assert run(WITHOUT) == [
        f'{kind} install "durable-adk[{extra}]"' for kind, extra in zip(kinds, extras, strict=True)
    ]


def test_the_server_does_without_a2a() -> None:
    """It has all its other routes then."""
    assert run(NO_A2A) == ["True False"]


def test_mcp_is_loaded_by_those_who_use_it() -> None:
    """Importing it takes as long as all of this package; nobody else pays for that."""
    assert run(NOT_LOADED) == ["False"]


class FromGoogleAdk:
    """Stands for an object of an older google-adk."""

    __module__ = "google.adk.agents.llm_agent"


@pytest.fixture(params=["1.20.0", "2.12.3", "3.0.0rc1"])
def unfit(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A version of google-adk whose objects do not run here, as if it were loaded."""
    monkeypatch.setitem(sys.modules, "google.adk", ModuleType("google.adk"))
    monkeypatch.setattr(extras, "find_spec", lambda _: True)
    monkeypatch.setattr(extras, "version", lambda _: request.param)
    extras.has_google_adk.cache_clear()
    yield request.param
    extras.has_google_adk.cache_clear()


@pytest.mark.parametrize(
    "take",
    [
        lambda: extras.from_google_adk(FromGoogleAdk()),
        lambda: extras.agent_of_config("root_agent.yaml"),
        lambda: extras.for_google_adk(ScriptedModel()),
    ],
    ids=["object", "config", "ours"],
)
def test_an_unfit_google_adk_is_named(unfit: str, take: Callable[[], object]) -> None:
    """With its version, those whose objects run, and the command that installs one."""
    says = rf"google-adk {re.escape(unfit)} .* 2\.13 or newer, below 3, .* --upgrade"
    with pytest.raises(AgentDefinitionError, match=says):
        take()


async def test_our_objects_run_beside_an_unfit_google_adk(unfit: str) -> None:
    """Callbacks, tools and names of models are taken as if it were not there."""
    called: list[str] = []

    def note(callback_context: CallbackContext) -> None:
        called.append(callback_context.agent_name)

    agent = LlmAgent(
        name="a",
        model=ScriptedModel(replies=["hi"]),
        instruction=lambda _: unfit,
        before_agent_callback=note,
    )
    async with InMemoryRunner(agent) as runner:
        events = await runner.run_debug("hello", quiet=True)
    assert [event.text for event in events] == ["hi"]
    assert called == ["a"]
    with pytest.raises(AgentDefinitionError, match="unknown-model"):
        LLMRegistry.new_llm("unknown-model")


def test_the_versions_that_fit_are_those_that_the_extra_brings() -> None:
    """The number in the code and the one in the package's metadata are the same."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    first, second = extras._OF_GOOGLE_ADK
    wanted = f"google-adk>={first}.{second},<{first + 1}"
    assert project["optional-dependencies"]["adk"] == [wanted]
