"""The rules of the house that a machine can check (CONTRIBUTING.md)."""

import ast
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGE = sorted((ROOT / "durable_adk").rglob("*.py"))
ALL_TESTS = sorted((ROOT / "tests").rglob("*.py"))
TESTS = [path for path in ALL_TESTS if path.name.startswith("test_")]
Function = ast.FunctionDef | ast.AsyncFunctionDef


def functions(path: Path) -> Iterator[Function]:
    """All functions of a file."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, Function):
            yield node


def name(path: Path) -> str:
    """A file as pytest shows it."""
    return str(path.relative_to(ROOT))


@pytest.mark.parametrize("path", PACKAGE, ids=name)
def test_a_module_is_short_and_says_what_it_is(path: Path) -> None:
    """At most 400 lines, functions of at most 50, a docstring, no import inside a function."""
    text = path.read_text()
    assert len(text.splitlines()) <= 400
    assert ast.get_docstring(ast.parse(text))
    for function in functions(path):
        assert (function.end_lineno or 0) - function.lineno < 50, function.name
        imports = [n for n in ast.walk(function) if isinstance(n, ast.Import | ast.ImportFrom)]
        assert not imports, function.name


@pytest.mark.parametrize("path", TESTS, ids=name)
def test_a_test_states_a_property(path: Path) -> None:
    """The docstring of a test is the sentence that it proves."""
    for function in functions(path):
        if function.name.startswith("test_"):
            assert ast.get_docstring(function), function.name


def test_the_source_distribution_has_what_its_tests_import() -> None:
    """Whoever packages a release can run the tests that come with it."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    included = project["tool"]["hatch"]["build"]["targets"]["sdist"]["include"]
    nodes = [node for path in ALL_TESTS for node in ast.walk(ast.parse(path.read_text()))]
    imported = {(n.module or "").partition(".")[0] for n in nodes if isinstance(n, ast.ImportFrom)}
    ours = {package for package in imported if package and (ROOT / package).is_dir()}
    assert {"durable_adk", "simulation", "tests"} <= ours <= set(included)


@pytest.mark.parametrize("path", PACKAGE, ids=name)
def test_no_data_becomes_code(path: Path) -> None:
    """S12: nothing is unpickled, evaluated, or imported by a name that came from data."""
    banned = {"pickle", "marshal", "shelve", "dill", "yaml"}
    tree = ast.parse(path.read_text())
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            assert not banned & {alias.name for alias in node.names}
        if isinstance(node, ast.ImportFrom):
            assert node.module not in banned
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            assert node.func.id not in {"eval", "exec"}
