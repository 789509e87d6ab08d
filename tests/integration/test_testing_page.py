"""docs/start/testing.md: the tests that it shows pass, and each can fail."""

import inspect
import re
from pathlib import Path
from typing import Any

import pytest

from tests.support.required import ROOT

BLOCKS = re.findall(
    r"```python\n(.*?)```", (ROOT / "docs" / "start" / "testing.md").read_text(), re.DOTALL
)


@pytest.mark.thorough
@pytest.mark.parametrize("number", range(len(BLOCKS)))
async def test_the_pages_tests_pass(number: int, tmp_path: Path) -> None:
    """Each piece is a test module by itself, as a reader may copy it."""
    names: dict[str, Any] = {"__name__": f"testing_{number}"}
    exec(compile(BLOCKS[number], f"testing.md, block {number}", "exec"), names)  # noqa: S102
    tests = [value for name, value in names.items() if name.startswith("test_")]
    assert tests
    for test in tests:
        wanted = inspect.signature(test).parameters
        outcome = test(**({"tmp_path": tmp_path} if "tmp_path" in wanted else {}))
        if inspect.isawaitable(outcome):
            await outcome


def test_the_page_has_pieces_to_run() -> None:
    """So that the test above cannot pass over nothing."""
    assert len(BLOCKS) >= 5
