"""The package without its extras."""

import subprocess
import sys

import pytest

pytestmark = pytest.mark.thorough

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
from durable_adk.ops.codec_server import codec_application
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
    lambda: codec_application(None, None),
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


@pytest.mark.thorough
def test_what_needs_an_extra_names_it() -> None:
    """All modules can be imported without extras; what needs one says how to install it."""
    extras = ["codec", "encryption", "encryption", "mcp", "mcp", "objects", "redis", "webhooks"]
    kinds = [
        "AgentDefinitionError" if extra == "mcp" else "InvalidRequestError" for extra in extras
    ]
    assert run(WITHOUT) == [
        f'{kind} install "durable-adk[{extra}]"' for kind, extra in zip(kinds, extras, strict=True)
    ]


@pytest.mark.thorough
def test_the_server_does_without_a2a() -> None:
    """It has all its other routes then."""
    assert run(NO_A2A) == ["True False"]


@pytest.mark.thorough
def test_mcp_is_loaded_by_those_who_use_it() -> None:
    """Importing it takes as long as all of this package; nobody else pays for that."""
    assert run(NOT_LOADED) == ["False"]
