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
UNPICKLERS = {"pickle", "marshal", "shelve", "dill", "cloudpickle", "jsonpickle", "yaml"}
IMPORTING = {
    *("__import__", "imp", "runpy", "sys.modules"),
    *("importlib", "importlib.import_module", "importlib.machinery", "importlib.util"),
    *("import_module", "entry_points", "importlib.metadata.entry_points"),
    *("pkgutil.resolve_name", "pydantic.ImportString", "pydoc.locate"),
}
"""What imports by a name, or finds an object by one, as it is imported or called."""
IMPORTERS = {
    "durable_adk/cli/target.py": "what somebody wrote on a command line",
    "durable_adk/telemetry/setup.py": "exporters that the environment of a process names",
    "durable_adk/cli/execution.py": "a constant",
    "durable_adk/extras.py": "a table of constants, which are only looked for",
    "durable_adk/models/_gemini_errors.py": "three constants",
}
"""Where a name decides what is imported, and whose name: none of them came out of data."""


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


def makes_code(tree: ast.AST) -> set[str]:
    """What unpickles or evaluates, by whatever name it was imported."""
    found = set[str]()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name.partition(".")[0] for alias in node.names} & UNPICKLERS
        if isinstance(node, ast.ImportFrom) and not node.level:
            found |= {(node.module or "").partition(".")[0]} & UNPICKLERS
        if isinstance(node, ast.Name):
            found |= {node.id} & {"eval", "exec", "compile"}
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            found |= {node.value.id} & {"builtins"}
    return found


def imports_by_name(tree: ast.AST) -> bool:
    """Whether a text may decide which module is imported, or whose object is taken."""
    for node in ast.walk(tree):
        names = set[str]()
        if isinstance(node, ast.Import):
            names = {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and not node.level:
            names = {f"{node.module}.{alias.name}" for alias in node.names} | {str(node.module)}
        elif isinstance(node, ast.Attribute):
            of = f"{node.value.id}." if isinstance(node.value, ast.Name) else ""
            names = {f"{of}{node.attr}"}
        elif isinstance(node, ast.Name):
            names = {node.id}
        if names & IMPORTING:
            return True
    return False


@pytest.mark.parametrize("path", PACKAGE, ids=name)
def test_no_data_becomes_code(path: Path) -> None:
    """S12: nothing is unpickled, evaluated, or imported by a name that came from data."""
    tree = ast.parse(path.read_text())
    assert not makes_code(tree)
    assert imports_by_name(tree) == (name(path) in IMPORTERS)


@pytest.mark.parametrize(
    "code",
    [
        "import importlib\nimportlib.import_module(row.kind)",
        "from importlib import import_module as load\nload(row.kind)",
        "import importlib.util",
        "from importlib.metadata import entry_points",
        "import importlib.metadata\nimportlib.metadata.entry_points(name=row.kind)",
        "__import__(row.kind)",
        "import pkgutil\npkgutil.resolve_name(row.kind)",
        "from pkgutil import resolve_name",
        "import sys\nsys.modules[row.kind]",
        "from pydantic import ImportString",
    ],
)
def test_an_import_by_name_is_seen(code: str) -> None:
    """S12: each way that Python has is one that the test above knows."""
    assert imports_by_name(ast.parse(code))


@pytest.mark.parametrize(
    "code",
    [
        "import pickle",
        "from pickle import loads",
        "from yaml.loader import Loader",
        "eval(row.text)",
        "run = exec",
        "import builtins\nbuiltins.exec(row.text)",
    ],
)
def test_code_from_data_is_seen(code: str) -> None:
    """S12: also where it has got another name."""
    assert makes_code(ast.parse(code))
