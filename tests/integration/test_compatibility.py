"""docs/use/adk-compatibility.md: each row has its test or its difference, what is missing is."""

import ast
import importlib
import inspect
import re
from collections import Counter
from contextlib import suppress
from functools import cache
from typing import Any, NamedTuple

import pytest

from tests.support.compatibility import cells, document, members, missing_names, section
from tests.support.required import ROOT

ROWS = range(1, 197)
"""What ADK's pages on the runtime and on events promise."""
ROW = re.compile(r"^\| (\d[\d, to]*) \| (.+?) \| (.+?) \| (.+?) \|$", re.MULTILINE)
NODE = re.compile(r"`(tests/[\w/]+\.py)::(test_\w+)`")
ABSENT = object()


class Row(NamedTuple):
    """A line of the table of promises, which may hold several rows."""

    numbers: str
    promise: str
    where: str
    status: str


def rows() -> list[Row]:
    """The table of promises, all its parts."""
    found = ROW.findall(section("The 196 rows"))
    return [Row(*cells) for cells in found]


def numbers(row: Row) -> list[int]:
    """Those of "4, 10 to 12": 4, 10, 11 and 12."""
    ends = [part.split(" to ") for part in row.numbers.split(", ")]
    return [n for first, *last in ends for n in range(int(first), int(*last or [first]) + 1)]


@cache
def functions_in(path: str) -> frozenset[str]:
    """Names of the test functions of a file below tests/, whatever their parameters."""
    tree = ast.parse((ROOT / path).read_text())
    functions = (n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef))
    return frozenset(node.name for node in functions if node.name.startswith("test_"))


def anchors() -> set[str]:
    """The document's headings, as links name them."""
    headings = re.findall(r"^#+ (.+)$", document(), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", title).lower().replace(" ", "-") for title in headings}


def test_every_row_is_there_once() -> None:
    """Rows 1 to 196."""
    assert sorted(n for row in rows() for n in numbers(row)) == list(ROWS)


@pytest.mark.parametrize("row", rows(), ids=lambda row: row.numbers)
def test_a_row_names_its_test_and_its_status(row: Row) -> None:
    """Kept and differing rows name tests that exist, guidance leads to a section that gives it."""
    kind, _, difference = row.status.partition(": ")
    assert kind in {"kept", "differs", "guidance"}
    assert bool(difference.strip()) is (kind == "differs"), "a difference has to be stated"
    if kind == "guidance":
        assert set(re.findall(r"\]\(#([\w-]+)\)", row.where)) & anchors()
        return
    nodes = NODE.findall(row.where)
    assert nodes, "no test is named"
    for path, test in nodes:
        assert (ROOT / path).is_file(), path
        assert test in functions_in(path), f"{path}::{test}"


@pytest.mark.parametrize("row", cells("The differences in one list"), ids=lambda row: row[0][:40])
def test_a_difference_names_what_shows_it(row: list[str]) -> None:
    """Each in the list of differences has a test that exists."""
    difference, ours, shown = row
    assert difference
    assert ours
    nodes = NODE.findall(shown)
    assert nodes
    assert all(test in functions_in(path) for path, test in nodes)


def look_up(path: str) -> Any:
    """What a dotted path below the package leads to: a module, or something in one; or ABSENT."""
    try:
        return importlib.import_module(path)
    except ModuleNotFoundError:
        module, _, name = path.rpartition(".")
        owner = look_up(module) if module else ABSENT
        return ABSENT if owner is ABSENT or not has(owner, name) else getattr(owner, name)


def here(path: str) -> str:
    """Our path of a module, a class or a function of ADK's."""
    return f"durable_adk.{path}" if path else "durable_adk"


def has(owner: Any, name: str) -> bool:
    """Whether a module, class or function has the attribute, field or parameter."""
    if inspect.isfunction(owner):
        return name in inspect.signature(owner).parameters
    with suppress(ImportError):  # which says why a name is missing
        if hasattr(owner, name) or name in getattr(owner, "model_fields", {}):
            return True
    if not inspect.isclass(owner):
        return False
    annotated = {key for base in owner.__mro__ for key in inspect.get_annotations(base)}
    return name in annotated | set(inspect.signature(owner).parameters)


MISSING = missing_names()
"""The names of ADK that are not here, with their reasons."""


@pytest.mark.parametrize("owner", members()["missing"])
def test_what_is_called_missing_is_missing(owner: str) -> None:
    """Fields, methods and parameters, each with its reason."""
    found, missing = look_up(here(owner)), members()["missing"][owner]
    assert found is not ABSENT
    assert all(missing.values())
    assert [name for name in missing if has(found, name)] == []


@pytest.mark.parametrize("module", MISSING.names)
def test_a_name_called_missing_is_missing(module: str) -> None:
    """The same for the names of modules."""
    found = look_up(here(module))
    assert found is not ABSENT
    assert [
        name for name, why in MISSING.names[module].items() if has(found, name) or not why
    ] == []


def test_a_module_called_missing_is_missing() -> None:
    """The same for whole modules."""
    assert all(MISSING.modules.values())
    paths = [f"durable_adk.{path}" for path in MISSING.modules]
    assert [path for path in paths if look_up(path) is not ABSENT] == []


def test_the_numbers_are_those_of_the_table() -> None:
    """What the document says it holds, it holds."""
    kinds = Counter(row.status.partition(":")[0] for row in rows() for _ in numbers(row))
    told = re.search(r"(\d+) are kept, (\d+) differ, and (\d+) are guidance", unwrapped())
    assert told is not None
    assert [int(n) for n in told.groups()] == [kinds[k] for k in ("kept", "differs", "guidance")]


def unwrapped() -> str:
    """The document without line ends."""
    return " ".join(document().split())
