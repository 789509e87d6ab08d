"""What some tests need of a machine: they are skipped where it is missing, but not in CI."""

import importlib.util
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
REQUIRE = "DURABLE_ADK_TESTS_REQUIRE"
"""The variable that `.ci/run` sets to ``all``."""


def has_modules(*names: str) -> bool:
    """Whether all these are installed; to skip tests, or to leave out parameters."""
    return _found(all(map(importlib.util.find_spec, names)), *names)


def has_program(name: str) -> bool:
    """Whether a program is on the path."""
    return _found(shutil.which(name) is not None, name)


def module(name: str) -> Any:
    """A module; the test is skipped without it."""
    try:
        return pytest.importorskip(name)
    except pytest.skip.Exception:
        _found(False, name)
        raise


def interpreter(environment: str) -> Path:
    """The Python of an environment inside `.venv`; the test is skipped where there is none."""
    python = ROOT / ".venv" / environment / "bin" / "python"
    if not _found(python.exists(), str(python)):
        pytest.skip(f"{python} is missing: run make install")
    return python


def _found(found: bool, *names: str) -> bool:
    if not found and os.environ.get(REQUIRE) == "all":
        # Not `pytest.fail`: most ask while tests are collected, and some of them in a conftest.py.
        raise RuntimeError(f"{', '.join(names)}: missing, and {REQUIRE}=all wants it.")
    return found
