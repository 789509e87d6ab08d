"""Runs tests in the environment that has google-adk."""

import os
import subprocess
from importlib.util import find_spec

from tests.support.required import REQUIRE, ROOT, interpreter

IS_HERE = find_spec("google.adk") is not None
"""Whether this process is one of that environment."""


def run_tests(*arguments: str, timeout: float, **variables: str) -> str:
    """Run pytest there, and return what it says; it must succeed.

    Args:
        *arguments: Files and options.
        timeout: Seconds.
        **variables: Added to the environment.
    """
    command = [interpreter("adk"), "-m", "pytest", "-q", "-p", "no:cacheprovider", *arguments]
    # google-adk and its libraries warn of each other.
    command += ["-o", "filterwarnings="]
    run = subprocess.run(
        command,
        cwd=ROOT,
        # What that environment lacks is tested in this one.
        env=os.environ | {REQUIRE: ""} | variables,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=timeout,
        check=False,
    )
    assert run.returncode == 0, run.stdout[-8000:]
    return run.stdout
