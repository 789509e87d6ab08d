"""docs/start/first-hour.md: its pictures are what a terminal shows today."""

import re
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from tests.support.required import ROOT

PAGE = ROOT / "docs" / "start" / "first-hour.md"
PICTURES = sorted(PAGE.with_suffix("").glob("*.svg"))
CHANGING = re.compile(
    r"\b(e|adk)-[0-9a-f-]{8,}\b|\b[0-9a-f]{12}\b"  # ids
    r"|\b\d{4}-\d\d-\d\d\b|\b\d\d:\d\d:\d\d\b"  # times
)
"""What is another at each recording."""


def shown(picture: Path) -> list[list[str]]:
    """The words of a picture, line by line, with a mark for those that change."""
    lines: dict[str, str] = {}
    tree = ET.parse(picture)  # noqa: S314  # our own
    for each in tree.iter("{http://www.w3.org/2000/svg}text"):
        if line := each.get("clip-path"):
            lines[line] = lines.get(line, "") + (each.text or "").replace("\xa0", " ")
    return [CHANGING.sub("#", line).split() for line in lines.values() if line.strip()]


def test_the_page_has_all_pictures() -> None:
    """Each is shown once, and there is no other."""
    named = re.findall(r"\]\(first-hour/(\w+\.svg)\)", PAGE.read_text())
    assert sorted(named) == [picture.name for picture in PICTURES]


@pytest.mark.thorough
@pytest.mark.sampled(6)
@pytest.mark.timeout(900)
def test_the_pictures_show_what_a_terminal_shows(tmp_path: Path) -> None:
    """Typed again, the commands print the same but for ids and times.

    If a change of the output is meant, run `python -m tests.support.first_hour`, and look at them.
    """
    record = [sys.executable, "-m", "tests.support.first_hour", tmp_path]
    subprocess.run(record, cwd=ROOT, check=True, timeout=850)
    assert {path.name: shown(path) for path in tmp_path.glob("*.svg")} == {
        path.name: shown(path) for path in PICTURES
    }
