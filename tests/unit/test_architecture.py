"""The rules of the house that a machine can check (CONTRIBUTING.md)."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGE = sorted((ROOT / "durable_adk").rglob("*.py"))
TESTS = sorted((ROOT / "tests").rglob("test_*.py"))
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
