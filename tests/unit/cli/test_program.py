"""The program, its commands, and what it imports."""

import dataclasses
import inspect
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import get_args, get_type_hints

import pytest

from durable_adk import __version__
from durable_adk.cli.commands import options
from durable_adk.cli.commands.declaration import loaded
from durable_adk.cli.program import declared
from durable_adk.server.settings import ServerSettings
from durable_adk.sessions import Status
from durable_adk.wire.messages import WhenBusy

ROOT = Path(__file__).parents[3]
HEAVY = ("temporalio", "sqlalchemy", "alembic", "google", "structlog", "opentelemetry")
NAMES = (
    *("demo", "run", "dev", "worker", "schedule create", "pending", "approve", "respond", "attach"),
    *("cancel", "sessions", "show", "attempts", "health", "doctor", "erase", "db upgrade"),
    *("search-attributes", "key new", "codec"),
)
PROBE = """
import atexit, os, sys
from durable_adk.cli import program

def leave(code):
    print("imported", *sys.modules, file=sys.stderr)
    os._exit(code)

program.leave = leave
program.main()
"""


@pytest.mark.parametrize(
    ("arguments", "env", "shown"),
    [
        (["--version"], {}, f"durable-adk {__version__}"),
        (["--help"], {}, "Send a message to TARGET's agent"),
        (
            ["--show-completion", "bash"],
            # The shell that runs make is none that typer completes.
            {"_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION": "1"},
            "complete_bash",
        ),
        (
            [],
            {
                "_DURABLE_ADK_COMPLETE": "complete_bash",
                "COMP_WORDS": "durable-adk at",
                "COMP_CWORD": "1",
            },
            "attach\nattempts",
        ),
        (
            [],
            {
                "_DURABLE_ADK_COMPLETE": "complete_bash",
                "COMP_WORDS": "durable-adk run --when",
                "COMP_CWORD": "2",
            },
            "--when-busy",
        ),
        *(([*name.split(), "--help"], {}, f" {name} [OPTIONS]") for name in NAMES),
    ],
)
def test_looking_up_commands_imports_no_large_library(arguments, env, shown):
    """Help, version and completion answer at once: they import few modules, none large."""
    done = subprocess.run(
        [sys.executable, "-c", PROBE, *arguments],
        env={**os.environ, **env, "PYTHONPATH": str(ROOT), "COLUMNS": "120"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert shown in done.stdout
    imported = done.stderr.partition("imported ")[2].split()
    assert "typer" in imported
    assert [name for name in imported if name.startswith(HEAVY)] == []
    assert len(imported) < 500


def test_help_names_settings_and_documents_that_there_are():
    """A server's names each way to know its users, and where all settings are."""
    known = {f"DURABLE_ADK_SERVER_{name.upper()}" for name in ServerSettings.model_fields}
    for command in declared():
        named = set(re.findall(r"DURABLE_ADK_SERVER_\w+", command.__doc__ or ""))
        assert named <= known, command.work
        if command.work in ("dev.http:web", "dev.http:serve"):
            ways = ("TOKENS_FILE", "PROXY_HEADER", "OIDC")
            assert named == {f"DURABLE_ADK_SERVER_{way}" for way in ways}
            assert "docs/server.md" in command.__doc__
        for path in re.findall(r"docs/[\w-]+\.md", command.__doc__ or ""):
            assert (ROOT / path).is_file()


@pytest.mark.parametrize("command", list(declared()), ids=lambda command: command.work)
def test_the_work_takes_what_the_command_declares(command):
    """The function of each command exists and has its parameters, or a dataclass with them."""
    work = loaded(command.work)
    hints = get_type_hints(work)
    taken = set[str]()
    for name, hint in hints.items():
        fields = dataclasses.fields(hint) if dataclasses.is_dataclass(hint) else ()
        taken |= {one.name for one in fields if one.init} or {name}
    names = set(inspect.signature(command).parameters) - {"debug"}
    assert names <= taken
    assert {name for name in inspect.signature(work).parameters if name not in names} <= {
        "connection",
        "options",
    }


def test_choices_are_the_values_of_their_enumerations():
    """An option offers what the enumeration behind it has."""
    assert set(get_args(options.Status)) == {str(one) for one in Status}
    assert set(get_args(options.WhenBusy)) == {str(one) for one in WhenBusy}
