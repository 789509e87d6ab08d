"""The tests in tests/interop/objects, run where google-adk is."""

from pathlib import Path

import pytest

from tests.support.google_adk import run_tests

FILES = {file.stem: str(file) for file in (Path(__file__).parent / "objects").glob("test_*.py")}
LONG = ("toolsets", "wires", "wire_kills")
"""Files of most libraries of others, and with kills; each run takes another one."""


@pytest.mark.timeout(1200)
def test_objects_of_google_adk() -> None:
    """What each of its tests says of objects of google-adk.

    Many files in one process: it takes four CPU seconds before the first test.
    """
    long = {f"test_{name}" for name in LONG}
    run_tests(*(FILES[name] for name in sorted(FILES.keys() - long)), timeout=1180)


@pytest.mark.thorough
@pytest.mark.sampled(6)
@pytest.mark.parametrize("name", LONG)
@pytest.mark.timeout(1200)
def test_long_objects_of_google_adk(name: str) -> None:
    """What each test of such a file says."""
    run_tests(FILES[f"test_{name}"], timeout=1180)
