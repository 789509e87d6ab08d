"""The tests in tests/interop/objects, run where google-adk is."""

from pathlib import Path

import pytest

from tests.support.google_adk import run_tests

FILES = sorted((Path(__file__).parent / "objects").glob("test_*.py"))
LONG = {"test_toolsets", "test_wires"}
"""Files of most libraries of others."""
PARAMS = [
    pytest.param(
        file,
        marks=[pytest.mark.thorough] if file.stem.endswith("kills") or file.stem in LONG else [],
    )
    for file in FILES
]


@pytest.mark.parametrize("file", PARAMS, ids=[file.stem for file in FILES])
@pytest.mark.timeout(300)
def test_objects_of_google_adk(file: Path) -> None:
    """What each of its tests says of objects of google-adk."""
    run_tests(str(file), timeout=280)
