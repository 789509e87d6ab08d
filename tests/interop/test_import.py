"""google-adk is imported when an object of it is there, and not before."""

import subprocess
import sys

import pytest

from tests.support.required import ROOT, interpreter

pytestmark = pytest.mark.thorough
LOADED = "import sys, durable_adk.cli, durable_adk.runners; print('google.adk' in sys.modules)"


def test_durable_adk_does_not_import_google_adk() -> None:
    """Also where it is installed: whoever does not use it pays nothing for it."""
    python = interpreter("adk")
    run = subprocess.run([python, "-c", LOADED], cwd=ROOT, capture_output=True, check=True)
    assert run.stdout.strip() == b"False"


def test_a_target_without_the_extra_is_told_its_name(tmp_path) -> None:
    """A project that imports google.adk where it is not installed gets one clear line."""
    folder = tmp_path / "capital"
    folder.mkdir()
    (folder / "agent.py").write_text("from google.adk.agents import LlmAgent\n")
    command = [sys.executable, "-m", "durable_adk.cli", "run", str(folder), "hello"]
    run = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert run.returncode != 0
    assert 'pip install "durable-adk[adk]"' in run.stderr
    assert "Traceback" not in run.stderr
