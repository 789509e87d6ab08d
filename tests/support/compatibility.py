"""What docs/use/adk-compatibility.md says, by its headings and tables, and the missing names."""

import json
import re
from functools import cache
from typing import NamedTuple

from tests.support.required import ROOT

DOCUMENT = ROOT / "docs" / "use" / "adk-compatibility.md"


@cache
def document() -> str:
    """The document."""
    return DOCUMENT.read_text()


def section(title: str) -> str:
    """The text under a heading of any level, up to the next heading of the same."""
    level, _, text = re.split(rf"^(#+) ({re.escape(title)})$", document(), flags=re.MULTILINE)[1:]
    return re.split(rf"^{level} ", text, flags=re.MULTILINE)[0]


def cells(title: str) -> list[list[str]]:
    """The cells of the table under a heading, without its head."""
    lines = [line for line in section(title).splitlines() if re.match(r"\| (?!-)", line)]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines[1:]]


class MissingNames(NamedTuple):
    """Modules and names of ADK that are not here, with the reasons."""

    modules: dict[str, str]
    names: dict[str, dict[str, str]]


def members() -> dict[str, dict[str, dict[str, str]]]:
    """What classes and functions lack, and which signatures differ, by owner and name."""
    table: dict[str, dict[str, dict[str, str]]]
    table = json.loads((ROOT / "tests" / "adk" / "members.json").read_text())
    return table


def missing_names() -> MissingNames:
    """The package's table."""
    table = ROOT / "durable_adk" / "compatibility" / "missing_names.json"
    return MissingNames(**json.loads(table.read_text()))
