"""The tests in tests/interop/objects, run where google-adk is."""

from pathlib import Path

import pytest

from tests.support.google_adk import run_tests

FILES = sorted((Path(__file__).parent / "objects").glob("test_*.py"))
LONG = {"test_toolsets", "test_wires", "test_wire_kills"}
"""Files of most libraries of others, and with kills."""


@pytest.mark.parametrize("long", [False, pytest.param(True, marks=pytest.mark.thorough)])
@pytest.mark.timeout(600)
def test_objects_of_google_adk(*, long: bool) -> None:
    """What each of its tests says of objects of google-adk.

    Many files in one process: it takes four CPU seconds before the first test.
    """
    files = [str(file) for file in FILES if (file.stem in LONG) == long]
    run_tests(*files, timeout=580)
