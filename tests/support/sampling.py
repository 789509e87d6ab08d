"""The share of a matrix that a run of the tests takes: another one after each commit."""

import os
import subprocess
import zlib

from tests.support.required import ROOT

VARIABLE = "DURABLE_ADK_TESTS_SAMPLE"
"""Says what is drawn: ``all`` takes everything, equal numbers take the same tests."""


def _of_commit() -> str:
    """The number of the commit that is checked out; 0 without git."""
    try:
        command = ["git", "rev-parse", "--short=7", "HEAD"]
        found = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
        return str(int(found.stdout[:7], 16))
    except (OSError, subprocess.CalledProcessError):
        return "0"


# Set, so that processes that share the tests, and pytest that a test starts, take the same.
SAMPLE = os.environ[VARIABLE] = os.environ.get(VARIABLE) or _of_commit()
ALL = SAMPLE == "all"


def turn(name: str, of: int) -> int:
    """A number below `of`, which differs from commit to commit; 0 with ``all``."""
    return 0 if ALL else (zlib.crc32(name.encode()) + int(SAMPLE)) % of


def is_taken(name: str, of: int) -> bool:
    """Whether this run takes what is one in `of`."""
    return turn(name, of) == 0
