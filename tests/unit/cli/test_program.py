"""The program, and what it imports."""

import inspect
import os
import subprocess
import sys
from pathlib import Path

import pytest
import typer

from durable_adk import __version__
from durable_adk.cli.program import COMMANDS, load

ROOT = Path(__file__).parents[3]
HEAVY = ("temporalio", "sqlalchemy", "alembic", "google", "structlog", "opentelemetry")
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
    ],
)
def test_looking_up_commands_imports_none_of_them(arguments, env, shown):
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
    assert len(imported) < 400


@pytest.mark.parametrize("name", list(COMMANDS))
def test_the_list_says_what_the_command_says(name):
    """The help of a command begins with its line in the list of commands."""
    loaded = load(name)
    (text,) = (
        [loaded.info.help]
        if loaded.registered_callback
        else [inspect.getdoc(one.callback) for one in loaded.registered_commands]
    )
    assert isinstance(text, str)
    assert text.partition("\n")[0] == COMMANDS[name].help
    assert isinstance(loaded, typer.Typer)
