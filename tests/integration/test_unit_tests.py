"""A unit test that starts a process fails, and one that asks for a server is not collected."""

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.thorough

ROOT = Path(__file__).parents[2]
CONFTEST = ROOT / "tests" / "unit" / "conftest.py"
SERVERS = """
import pytest

@pytest.fixture(scope="session")
def server():
    raise AssertionError("it must not start")

@pytest.fixture
def client(server):
    return server
"""


def outcome(folder: Path, test: str) -> str:
    """What pytest says of a module below tests/unit."""
    unit = folder / "unit"
    unit.mkdir()
    (folder / "conftest.py").write_text(SERVERS)
    (unit / "conftest.py").write_bytes(CONFTEST.read_bytes())
    (unit / "test_it.py").write_text(f"import os, subprocess, sys, threading, pytest\n{test}")
    (folder / "pytest.ini").write_text("[pytest]\naddopts = --import-mode=importlib\n")
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-rfE", "unit"]
    env = {"PYTHONPATH": str(ROOT), "PATH": "", "COLUMNS": "1000"}
    done = subprocess.run(command, cwd=folder, env=env, check=False, capture_output=True, text=True)
    return done.stdout


PHASES = {
    "call": """
def test_it():
    subprocess.run([sys.executable, "-c", ""])
""",
    "set-up": """
@pytest.fixture
def made():
    return subprocess.Popen([sys.executable, "-c", ""])

def test_it(made):
    pass
""",
    "teardown": """
@pytest.fixture
def made():
    yield
    os.system("true")

def test_it(made):
    pass
""",
    "handled like any error": """
def test_it():
    with pytest.raises(RuntimeError):
        os.fork()
""",
    "thread": """
def start():
    try:
        os.posix_spawn(sys.executable, [sys.executable, "-c", ""], {})
    except RuntimeError:
        pass

def test_it():
    thread = threading.Thread(target=start)
    thread.start()
    thread.join()
""",
}


@pytest.mark.thorough
@pytest.mark.parametrize("phase", PHASES)
def test_a_unit_test_that_starts_a_process_fails(phase: str, tmp_path: Path) -> None:
    """Whenever it does, with its name and the remedy, also if its code handles the refusal."""
    said = outcome(tmp_path, PHASES[phase])
    assert "unit/test_it.py::test_it: " in said
    assert "move it to the same place below tests/integration" in said
    assert "1 failed" in said or "1 error" in said


@pytest.mark.thorough
@pytest.mark.parametrize("fixture", ["server", "client"])
def test_a_unit_test_that_asks_for_a_server_is_not_collected(fixture: str, tmp_path: Path) -> None:
    """Another folder's test may have started it, so that no process would."""
    said = outcome(tmp_path, f"def test_it({fixture}):\n    pass\n")
    assert f"unit/test_it.py::test_it asks for {fixture}: that starts a server" in said
    assert "1 error during collection" in said
    assert "it must not start" not in said


@pytest.mark.thorough
def test_a_unit_test_that_asks_for_a_server_by_its_name_fails(tmp_path: Path) -> None:
    """`request.getfixturevalue` is seen only when it is called."""
    said = outcome(tmp_path, "def test_it(request):\n    request.getfixturevalue('client')\n")
    assert "The fixture 'client' starts a server" in said
    assert "1 failed" in said


@pytest.mark.thorough
def test_a_unit_test_may_have_a_fixture_of_that_name(tmp_path: Path) -> None:
    """What is made in the process is no server."""
    own = "@pytest.fixture\ndef client():\n    return 1\n\ndef test_it(client):\n    pass\n"
    assert "1 passed" in outcome(tmp_path, own)
