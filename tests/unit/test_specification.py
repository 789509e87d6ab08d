"""docs/know/specification.md: each cited id has a row, and each row is cited.

The rows of threats (S1 and so on) are those of SECURITY.md.
"""

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DOCUMENT = ROOT / "docs" / "know" / "specification.md"
SECURITY = ROOT / "SECURITY.md"
FOLDERS = ("durable_adk", "tests", "campaign", "simulation", "benchmarks", "examples")
CODE = sorted(path for name in FOLDERS for path in (ROOT / name).rglob("*.py"))
PROSE = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("examples/*/*.md")])
SELF = (Path(__file__), DOCUMENT)
ROW = re.compile(r'^\| <a id="(\S+)"></a>(\S+) \| (.+) \|$', re.MULTILINE)
THREAT = re.compile(r"^\| (S\d+) \|", re.MULTILINE)
ANCHOR = re.compile(r'<a id="(\S+?)">')
ID = re.compile(
    r"(?<![\w./-])(?P<family>[A-Z]{2,4}-|[DFIS])(?P<first>\d{1,2}|(?<=GR-)\d{3})"
    r"(?:(?: to |\.\.)(?:(?P=family))?(?P<last>\d{1,2}))?(?![\w-])"
)
"""An id, or a range such as "FLW-70 to FLW-77", which cites all of its ids."""
NOT_IDS = {"ORD-", "UTF-"}
"""What else looks so: an encoding, and order numbers of a test."""


def cited(text: str) -> Iterator[str]:
    """The ids of a text, each as often as it is cited."""
    for found in ID.finditer(text):
        family, first = found["family"], int(found["first"])
        if family not in NOT_IDS:
            numbers = range(first, int(found["last"] or first) + 1)
            yield from (f"{family}{number}" for number in numbers)


def rows() -> list[tuple[str, str, str]]:
    """Anchor, id and text of each row."""
    return ROW.findall(DOCUMENT.read_text())


def citable() -> list[str]:
    """All ids that may be cited."""
    return [name for _, name, _ in rows()] + THREAT.findall(SECURITY.read_text())


def test_every_cited_id_has_a_row() -> None:
    """Who meets an id in code, tests or documents can look it up."""
    known = set(citable())
    unknown = {
        f"{path.relative_to(ROOT)}: {name}"
        for path in [*CODE, *PROSE]
        if path not in SELF
        for name in cited(path.read_text())
        if name not in known
    }
    assert sorted(unknown) == []


def test_every_row_is_cited() -> None:
    """Code or tests name each requirement; one that nothing names is deleted."""
    used = {name for path in CODE if path not in SELF for name in cited(path.read_text())}
    assert [name for name in citable() if name not in used] == []


def test_every_row_has_an_anchor_of_its_own() -> None:
    """A link to ``#run-3`` leads to RUN-3; an id has one row, and each row says something."""
    found = rows()
    assert [anchor for anchor, _, _ in found] == [name.lower() for _, name, _ in found]
    assert [anchor for anchor, _, _ in found] == ANCHOR.findall(DOCUMENT.read_text())
    times = Counter(name for _, name, _ in found)
    assert [name for name, number in times.items() if number > 1] == []
    assert all(text.strip().endswith(".") for _, _, text in found)


def test_the_rows_of_a_family_are_in_order() -> None:
    """Ids are found by their number."""
    numbers: dict[str, list[int]] = {}
    for _, name, _ in rows():
        family = name.rstrip("0123456789")
        numbers.setdefault(family, []).append(int(name.removeprefix(family)))
    assert {name: sorted(found) for name, found in numbers.items()} == numbers


def test_links_to_a_row_lead_to_one() -> None:
    """A document that links to ``specification.md#run-3`` fails when the row goes."""
    anchors = {anchor for anchor, _, _ in rows()}
    for path in PROSE:
        linked = re.findall(r"specification\.md#([a-z]+-?\d+)\)", path.read_text())
        assert [anchor for anchor in linked if anchor not in anchors] == [], path.name


@pytest.mark.parametrize(
    ("text", "ids"),
    [
        ("(RUN-3, FLW-70 to FLW-72)", ["RUN-3", "FLW-70", "FLW-71", "FLW-72"]),
        ("I1 to I3, D9: AGT-5..7", ["I1", "I2", "I3", "D9", "AGT-5", "AGT-6", "AGT-7"]),
        ("GR-7, GR-110: GR-25 to GR-27", ["GR-7", "GR-110", "GR-25", "GR-26", "GR-27"]),
        ("UTF-8, SHA-256, S101, e-1.3, test_S3x", []),
    ],
)
def test_ids_are_recognised(text: str, ids: list[str]) -> None:
    """Single ids and ranges are; encodings, lint rules and event ids are not."""
    assert list(cited(text)) == ids
