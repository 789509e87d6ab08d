"""The rules for code that a machine can check (CONTRIBUTING.md)."""

import ast
import re
import tomllib
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "durable_adk"
PACKAGE = sorted(FOLDER.rglob("*.py"))
MODULES = [path.relative_to(FOLDER) for path in PACKAGE]
ALL_TESTS = sorted((ROOT / "tests").rglob("*.py"))
ARCHITECTURE = ROOT / "docs" / "know" / "architecture.md"
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
    "durable_adk/cli/dev/http.py": "a constant",
    "durable_adk/cli/commands/declaration.py": "constants of declarations",
    "durable_adk/__init__.py": "a table of constants",
    "durable_adk/embedded/__init__.py": "a table of constants",
    "durable_adk/interop/model.py": "a constant",
    "durable_adk/partials/__init__.py": "a constant",
    "durable_adk/partials/choice.py": "a constant",
    "durable_adk/tools/__init__.py": "a constant",
    "durable_adk/compatibility/google_version.py": "a constant, which is only looked for",
    "durable_adk/compatibility/missing_names.py": "what an import statement says",
    "durable_adk/google_objects.py": "none: it looks whether google-adk was imported",
    "durable_adk/registry.py": "this package's metadata",
    "durable_adk/server/app.py": "a table of constants",
    "durable_adk/server/adk/page.py": "constants, which are only looked for",
    "durable_adk/sql/migrate.py": "two constants",
    "durable_adk/sql/database.py": "a constant",
    "durable_adk/encryption/keys.py": "two constants",
    "durable_adk/storage/location.py": "a constant",
    "durable_adk/extras.py": "a table of constants, which are only looked for",
    "durable_adk/models/_gemini_errors.py": "three constants",
}
"""Where a name decides what is imported, and whose name: none of them came out of data."""

ADK_TOOLS = """
    agent_tool base_tool base_toolset enterprise_search_tool example_tool exit_loop_tool
    function_tool get_user_choice_tool google_maps_grounding_tool google_search_tool
    load_artifacts_tool load_memory_tool long_running_tool preload_memory_tool
    set_model_response_tool tool_confirmation tool_context transfer_to_agent_tool url_context_tool
"""
"""ADK has a module for each of these tools, and users import them from there."""

ADK = """
    already exists found input not validation act action activity agent app artifact as auth base
    built callback choice code compaction config confirmation content context conversation
    credential declaration dynamic enterprise event example edge executor exit filter flow function
    genai get global google graph grounding image in instruction invocation join llm load local loop
    maps mcp memory message model node offline output parallel part plan planner planning plugin
    preload provider re readonly reflect registry request response resumability retry rewind route
    run runner running runtime save schema scheme scripted search sequential service session set
    state static step summarizer tool toolset transfer turn unsafe user finish
"""
"""Words of ADK's own module and class names."""

TEMPORAL = """
    activities attempt attributes cancel client codec continue converter data definitions driver
    failure heartbeat history interceptor local new operations payload poll queue replay schedule
    signal task temporal timeout timer update versioning worker workflow
"""
"""Words of Temporal's documentation."""

OPENTELEMETRY = "attribute baggage headers identity log metrics span telemetry trace tracing"
"""Words of OpenTelemetry's documentation."""

COMPUTING = """
    acceptance access address agui announcement application arguments async authentication backend
    batch begin binding blobs body broken budget cache call caller calling calls card change channel
    check chunks cli close closing compact compiled connect connection container contract copies
    custom database db debugging decoding delegated deliver delivery demo dependencies determinism
    dev diagnosis doctor dot drawing embedded encryption end entry env environment erase erasure
    error execution expired external extras feed fence file finding folder forks gemini head health
    hook http id in_process inferred inserts invocations json key launch launcher layout library
    lifecycle limits lines link listing live location lock logging long lookup lost main manager
    merge migrate migrations missing names notifications oauth object oidc open operation ops
    options orphan orphaned over owner page parameters pause pending plain plain_text polling
    postgres private process program proxy push query range read rebuild reconcile record redaction
    redis reference refusal regression require result retention retrying routing row scope secret
    sent server serving settings setup shared size sockets source sql sqlite stack stale stalled
    started statements status steering steps storage store stored stream streaming subprocess
    subscription supervise svg sweep sync tables take target terminal text threads token transaction
    transactional types unavailable unfinished upload url utils values version wait watchdog watches
    webhook wire word
"""
"""Words of Python, of SQL, of the libraries in use and of computing at large."""

SMALL = "at by for from of on the to"


@pytest.fixture(scope="module", autouse=True)
def _forgotten() -> Iterator[None]:
    """Free the trees: the garbage collector would go through a million nodes in each later test."""
    yield
    nodes.cache_clear()
    tree.cache_clear()


@cache
def tree(path: Path) -> ast.Module:
    """Return a file's syntax tree."""
    return ast.parse(path.read_text())


@cache
def nodes(path: Path) -> tuple[ast.AST, ...]:
    """Return all nodes of a file."""
    return tuple(ast.walk(tree(path)))


def functions(path: Path) -> Iterator[Function]:
    """Yield all functions of a file."""
    return (node for node in nodes(path) if isinstance(node, Function))


def name(path: Path) -> str:
    """Return a file's path from the root."""
    return str(path.relative_to(ROOT))


def test_a_module_says_what_it_is() -> None:
    """The first line of a module is its docstring."""
    assert [name(path) for path in PACKAGE if not ast.get_docstring(tree(path))] == []


def test_functions_are_short() -> None:
    """A function has less than 50 lines."""
    long = [
        f"{name(path)}: {function.name}"
        for path in PACKAGE
        for function in functions(path)
        if (function.end_lineno or 0) - function.lineno >= 50
    ]
    assert long == []


def test_imports_stand_at_the_top() -> None:
    """No function imports anything, so the start of a module shows what it needs."""
    late = {
        f"{name(path)}: {function.name}"
        for path in PACKAGE
        for function in functions(path)
        for node in ast.walk(function)
        if isinstance(node, ast.Import | ast.ImportFrom)
    }
    assert late == set()


def glossary() -> list[str]:
    """The terms of docs/know/architecture.md: the bold ones at the start of the glossary's rows."""
    section = ARCHITECTURE.read_text().partition("\n## Glossary\n")[2].partition("\n## ")[0]
    return re.findall(r"^\| \*\*(.+?)\*\* \|", section, re.MULTILINE)


def words(text: str) -> set[str]:
    """The words of a text, each in the singular and the plural."""
    found = set(re.findall(r"[a-z]+", text.lower()))
    return found | {f"{word}s" for word in found} | {f"{word[:-1]}ies" for word in found}


def dotted(module: Path) -> str:
    """A module's name as it is imported, below durable_adk."""
    parts = module.with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def test_a_folder_has_at_most_15_modules() -> None:
    """What a reader looks for in a folder is found at a glance."""
    shown = [
        path.parent
        for path in MODULES
        if path.name != "__init__.py"
        and not (path.parent.name == "tools" and path.stem in ADK_TOOLS.split())
    ]
    large = {str(folder) for folder, number in Counter(shown).items() if number > 15}
    assert not large


def test_the_glossary_is_short() -> None:
    """At most 20 terms have to be learned that neither ADK nor Temporal has."""
    terms = glossary()
    assert 1 <= len(terms) <= 20
    assert len(set(terms)) == len(terms)


def test_a_module_has_the_name_of_a_known_thing() -> None:
    """Its words are those of ADK, Temporal, OpenTelemetry, computing, or the glossary."""
    known = words(" ".join([ADK, TEMPORAL, OPENTELEMETRY, COMPUTING, SMALL, *glossary()]))
    unknown = {
        str(module): other
        for module in MODULES
        if "migrations" not in module.parts
        if (other := set(module.stem.strip("_").split("_")) - known - {"init", "main"})
    }
    assert not unknown, (
        "Name the module by a word of ADK, Temporal, OpenTelemetry or the glossary in "
        "docs/know/architecture.md, or add a word that every programmer knows to COMPUTING."
    )


def test_a_public_class_name_is_unique() -> None:
    """A class name that a reader meets leads to one class."""
    names = Counter(
        node.name
        for module in MODULES
        for node in tree(FOLDER / module).body
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
    )
    assert [name for name, number in names.items() if number > 1] == []


def imported(module: Path, known: set[str]) -> set[str]:
    """The package's modules that a module imports, those for types only included."""
    found = set[str]()
    for node in nodes(FOLDER / module):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, f"{module}: write the import with its whole path"
            whole = {f"{node.module}.{alias.name}" for alias in node.names}
            inner = {name for name in whole if name.removeprefix("durable_adk.") in known}
            found |= inner or {str(node.module)}
    inside = {name.removeprefix("durable_adk.") for name in found if name.startswith("durable_adk")}
    return inside & known | deferred(module, known)


def deferred(module: Path, known: set[str]) -> set[str]:
    """The package's modules that a module imports by a name, once they are needed.

    A command of the command line names the function that does its work, as ``module:function``.
    """
    texts = {
        node.value
        for node in nodes(FOLDER / module)
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }
    if name(FOLDER / module) in IMPORTERS:
        named = {text.removeprefix("durable_adk.") for text in texts if "durable_adk." in text}
        return named & known - {""}
    if module.is_relative_to("cli/commands"):
        works = [text.partition(":") for text in texts if re.fullmatch(r"[\w.]+:\w+", text)]
        return {f"cli.{work}" for work, _, _ in works} & known
    return set()


def test_only_two_modules_are_registered_for_lower_ones() -> None:
    """What `registry` loads is above its caller, so each such call is known."""
    calls = {
        (name(path), node.args[0].value)
        for path in PACKAGE
        for node in nodes(path)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id == "registered"
        and isinstance(node.args[0], ast.Constant)
    }
    assert calls == {
        ("durable_adk/google_objects.py", "google_adk"),
        ("durable_adk/context/loop.py", "runners"),
    }


def test_no_module_takes_a_name_of_the_root() -> None:
    """The root would import a module above its caller; its version is no such name."""
    tops = {module.parts[0].removesuffix(".py") for module in MODULES} | {"__version__"}
    taken = {
        f"{name(path)}: {alias.name}"
        for path in PACKAGE
        for node in nodes(path)
        if isinstance(node, ast.ImportFrom) and node.module == "durable_adk"
        for alias in node.names
        if alias.name not in tops
    }
    assert taken == set()


def test_no_deferred_import_goes_upwards() -> None:
    """Layers hold for what is imported by a name, too, which import-linter does not see."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    (contract,) = (
        one for one in project["tool"]["importlinter"]["contracts"] if one["type"] == "layers"
    )
    rank = {
        one.strip(): -place
        for place, layer in enumerate(contract["layers"])
        for one in layer.split("|")
    }
    known = {dotted(module) for module in MODULES}
    arrows = [
        (dotted(module), other)
        for module in MODULES
        if module.parts != ("__init__.py",)  # no module takes a name of it, see above
        for other in deferred(module, known)
    ]
    assert len(arrows) > 20
    up = [
        (one, other)
        for one, other in arrows
        if rank[one.partition(".")[0]] < rank[other.partition(".")[0]]
    ]
    assert up == []


def test_no_modules_import_each_other() -> None:
    """Modules can be read in one order, also where an import is for types only, or deferred."""
    known = {dotted(module) for module in MODULES}
    graph = {dotted(module): imported(module, known) for module in MODULES}
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        pytest.fail(" <- ".join(error.args[1]))


def test_a_test_states_a_property() -> None:
    """The docstring of a test is the sentence that it proves."""
    silent = [
        f"{name(path)}: {function.name}"
        for path in TESTS
        for function in tree(path).body
        if isinstance(function, Function)
        if function.name.startswith("test_") and not ast.get_docstring(function)
    ]
    assert silent == []


def test_the_source_distribution_has_what_its_tests_import() -> None:
    """Whoever packages a release can run the tests that come with it."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    included = project["tool"]["hatch"]["build"]["targets"]["sdist"]["include"]
    top = [node for path in ALL_TESTS for node in tree(path).body]
    imported = {(n.module or "").partition(".")[0] for n in top if isinstance(n, ast.ImportFrom)}
    ours = {package for package in imported if package and (ROOT / package).is_dir()}
    assert {"durable_adk", "simulation", "tests"} <= ours <= set(included)


def makes_code(code: Iterable[ast.AST]) -> set[str]:
    """What unpickles or evaluates, by whatever name it was imported."""
    found = set[str]()
    for node in code:
        if isinstance(node, ast.Import):
            found |= {alias.name.partition(".")[0] for alias in node.names} & UNPICKLERS
        if isinstance(node, ast.ImportFrom) and not node.level:
            found |= {(node.module or "").partition(".")[0]} & UNPICKLERS
        if isinstance(node, ast.Name):
            found |= {node.id} & {"eval", "exec", "compile"}
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            found |= {node.value.id} & {"builtins"}
    return found


def imports_by_name(code: Iterable[ast.AST]) -> bool:
    """Whether a text may decide which module is imported, or whose object is taken."""
    for node in code:
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


def test_no_data_becomes_code() -> None:
    """S12: nothing is unpickled, evaluated, or imported by a name that came from data."""
    assert {name(path) for path in PACKAGE if makes_code(nodes(path))} == set()
    assert {name(path) for path in PACKAGE if imports_by_name(nodes(path))} == set(IMPORTERS)


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
    assert imports_by_name(ast.walk(ast.parse(code)))


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
    assert makes_code(ast.walk(ast.parse(code)))
