"""The guide says what works."""

import re
from pathlib import Path
from typing import Any

import pytest

GUIDE = Path(__file__).parents[2] / "docs" / "start" / "guide.md"
BLOCKS = re.findall(r"```python\n(.*?)```", GUIDE.read_text(), re.DOTALL)


@pytest.mark.parametrize("number", range(len(BLOCKS)))
def test_the_guides_python_runs(number: int) -> None:
    """Imports, names and arguments of each piece are those of the package."""
    names: dict[str, Any] = {"__name__": f"guide_{number}"}
    exec(compile(BLOCKS[number], f"guide.md, block {number}", "exec"), names)  # noqa: S102
    assert len(names) > 2


def test_the_guide_has_pieces_to_run() -> None:
    """So that the test above cannot pass over nothing."""
    assert len(BLOCKS) >= 7
