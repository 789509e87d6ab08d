"""The program, its commands, and what it imports."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from durable_adk import __version__

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
