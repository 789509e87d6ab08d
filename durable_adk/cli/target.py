"""TARGET on the command line: the folder, file or module that defines an agent or app."""

import importlib
import importlib.util
import re
import sys
import sysconfig
import traceback
import warnings
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

import typer

from durable_adk.errors import AgentDefinitionError, DurableAdkError
from durable_adk.extras import require
from durable_adk.google_objects import agent_of_config
from durable_adk.settings import env_files, read_env_file

_ENTRY_FILES = ("agent.py", "__init__.py")
_CONFIG = "root_agent.yaml"
"""google-adk's file for declaring an agent."""
_configs = set[str]()
"""The paths of the loaded ones."""
_DOTTED = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*")
_DEFINITION = re.compile(r"\b(root_agent|app)\b")
_SHOWN = 10


@dataclass(frozen=True, kw_only=True)
class LoadedTarget:
    """The definition in a target."""

    name: str
    """The app's own name, or a valid one derived from the folder, file or module."""
    value: object
    """The module's `app` if it has one, else its `root_agent`."""
    module: str
    """Import name of the module that defines it."""
    source: str
    """File of that module."""


def agents_in(target: str) -> list[str]:
    """Return the targets in a folder of agents, as in ``adk web``; any other target alone."""
    folder = Path(target).expanduser()
    if not folder.is_dir() or _defines_agent(folder):
        return [target]
    found = [str(one) for one in sorted(folder.iterdir()) if one.is_dir() and _defines_agent(one)]
    return found or [target]


def _defines_agent(folder: Path) -> bool:
    package = folder / "__init__.py"
    return any((folder / name).is_file() for name in ("agent.py", _CONFIG)) or (
        package.is_file() and _DEFINITION.search(package.read_text(errors="replace")) is not None
    )


def defines_app(target: str, apps: Collection[str]) -> bool:
    """Return whether a target defines an app, rather than only naming one of `apps`."""
    return target not in apps or Path(target).exists()


def load_target(target: str) -> LoadedTarget:
    """Import a target and find its `app` or `root_agent` (APP-1).

    A folder is imported as ADK does it: as a package of its parent folder, so that
    ``from . import tools`` works in it; ``agent.py`` in a folder means the folder. Other files are
    imported with their folder on the path, as ``python FILE`` would.

    Args:
        target: A folder with an ``agent.py``, ``__init__.py`` or google-adk's
            ``root_agent.yaml``, a ``.py`` file, or a dotted module.

    Raises:
        AgentDefinitionError: The target does not exist, cannot be imported, or defines neither.
    """
    # google-adk warns of classes that it uses itself.
    warnings.filterwarnings("ignore", r"\[EXPERIMENTAL\]", UserWarning)
    path = Path(target).expanduser().resolve()
    if path.is_dir():
        return _load_folder(target, path)
    if path.is_file() and path.suffix == ".py":
        return _load_file(target, path)
    if path.is_file() and path.name == _CONFIG:
        return _load_config(target, path)
    if _DOTTED.fullmatch(target) and not (target.endswith(".py") or path.exists()):
        return _load_module(target)
    wrong = "is not a Python file" if path.exists() else "does not exist"
    raise AgentDefinitionError(
        f"{target}: {path} {wrong}; give a folder with an agent.py, a .py file, or a dotted module."
    )


def loaded_files() -> list[str]:
    """Return the user's files that loading targets has read: modules and `.env` files."""
    modules = [getattr(module, "__file__", None) for module in list(sys.modules.values())]
    files = {*filter(_is_users, filter(None, modules)), *map(str, env_files()), *_configs}
    return sorted(files)


def _load_folder(target: str, folder: Path) -> LoadedTarget:
    present = [name for name in _ENTRY_FILES if (folder / name).is_file()]
    config = folder / _CONFIG
    if not present and config.is_file():
        return _load_config(target, config)
    if not present:
        raise AgentDefinitionError(
            f"{target}: the folder {folder} has neither agent.py nor __init__.py; "
            f"{_nearest_folders(folder)}write an agent.py that defines `root_agent`."
        )
    _read_env(folder)
    modules: list[ModuleType] = []
    if "__init__.py" in present:
        modules.append(_import_from(target, folder.parent, folder.name))
    if "agent.py" in present and not any(_find(module) for module in modules):
        modules.append(_import_from(target, folder.parent, f"{folder.name}.agent"))
    if config.is_file() and not any(_find(module) for module in modules):
        return _load_config(target, config)
    return _loaded(target, folder.name, modules)


def _load_config(target: str, file: Path) -> LoadedTarget:
    """Load an agent that google-adk creates from a file, with its folder's parent on the path."""
    require("adk", AgentDefinitionError)
    _read_env(file.parent)
    _make_importable(file.parent.parent)
    _configs.add(str(file))
    try:
        value = agent_of_config(str(file))
    except DurableAdkError:
        raise
    except BaseException as error:  # as in `_import`
        reason = f"{type(error).__name__}: {error}"
        raise AgentDefinitionError(f"{target}: {file} makes no agent: {reason}") from error
    name = file.parent.name
    return LoadedTarget(name=_valid_name(name), value=value, module=name, source=str(file))


def _nearest_folders(folder: Path) -> str:
    inner = sorted(one.name for one in folder.iterdir() if one.is_dir() and _defines_agent(one))
    return f"did you mean {' or '.join(inner[:_SHOWN])} in it? Else " if inner else ""


def _load_file(target: str, file: Path) -> LoadedTarget:
    if file.name in _ENTRY_FILES:
        return _load_folder(target, file.parent)
    _read_env(file.parent)
    root, parts = file.parent, [file.stem]
    while (root / "__init__.py").is_file():  # relative imports need all parent packages
        root, parts = root.parent, [root.name, *parts]
    return _loaded(target, file.stem, [_import_from(target, root, ".".join(parts))])


def _load_module(target: str) -> LoadedTarget:
    _make_importable(Path.cwd())  # as with `python -m`; a console script does not add it
    _read_env(Path.cwd())
    modules = [_import(target, target)]
    if not _find(modules[0]) and _has_agent_file(modules[0]):
        modules.append(_import(target, f"{target}.agent"))
    return _loaded(target, target.rpartition(".")[2], modules)


def _read_env(folder: Path) -> None:
    """Read the folder's `.env` file before its code, and log that."""
    file = read_env_file(folder)
    if file is None:
        return
    if file.names:
        typer.echo(f"Environment from {file.path}: {', '.join(file.names)}", err=True)
    if file.ignored:
        names = ", ".join(file.ignored)
        typer.echo(f"{file.path}: set {names} in the environment instead.", err=True)


def _has_agent_file(module: ModuleType) -> bool:
    return any((Path(folder) / "agent.py").is_file() for folder in getattr(module, "__path__", ()))


def _import_from(target: str, root: Path, name: str) -> ModuleType:
    """Import a module from `root`; refuse one that another module hides (e.g. ``json``)."""
    _make_importable(root)
    top = name.partition(".")[0]
    spec = importlib.util.find_spec(top)
    locations = [spec.origin, *(spec.submodule_search_locations or [])] if spec else []
    if any(_is_in(root, top, location) for location in locations):
        module = _import(target, name)
        if _is_in(root, top, module.__file__):
            return module
        locations = [module.__file__]  # a folder of the same name was imported earlier
    taken = next((location for location in locations if location), "nothing")
    raise AgentDefinitionError(
        f"{target}: Python finds {taken} by the name {name!r}; rename the folder or file, to "
        "letters, digits and '_' that no other module has as its name."
    )


def _is_in(root: Path, top: str, location: str | None) -> bool:
    path = Path(location or "/").resolve()
    return path == root / f"{top}.py" or path.is_relative_to(root / top)


def _make_importable(root: Path) -> None:
    if str(root) not in sys.path:
        sys.path.insert(0, str(root))
    importlib.invalidate_caches()  # the file may be newer than the cached folder listing


def _import(target: str, name: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except BaseException as error:  # user code runs during import, and may raise anything
        if isinstance(error, ModuleNotFoundError) and _is_part(error.name, name):
            raise AgentDefinitionError(
                f"{target}: there is no such folder or file here, and no module {name!r} "
                f"(not found: {error.name!r}); check the spelling, or give a path."
            ) from error
        if isinstance(error, ModuleNotFoundError) and _is_part(error.name, "google.adk.agents"):
            require("adk", AgentDefinitionError)
        reason, location = f"{type(error).__name__}: {error}", _location(error)
        remedy = _remedy(error, location) if isinstance(error, ImportError) else ""
        raise AgentDefinitionError(
            f"{target}: importing {name} failed at {location}: {reason}{remedy}"
        ) from error


def _remedy(error: ImportError, location: str) -> str:
    """Return the command that installs the project's requirements, else where to install."""
    folders = [*Path(location).parents][:2]
    files = [folder / "requirements.txt" for folder in folders]
    where = f"; install the package that has it into {sys.prefix}, which runs this"
    missing = where if isinstance(error, ModuleNotFoundError) else ""
    return next((f"; pip install -r {file}" for file in files if file.is_file()), missing)


def _is_part(missing: str | None, name: str) -> bool:
    return missing is not None and f"{name}.".startswith(f"{missing}.")


def _location(error: BaseException) -> str:
    """Return ``file:line`` of the error in the user's code, not in a library that it calls."""
    if isinstance(error, SyntaxError) and error.filename:
        return f"{error.filename}:{error.lineno}"
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if _is_users(frame.filename)]
    return f"{(own or frames)[-1].filename}:{(own or frames)[-1].lineno}"


def _is_users(filename: str) -> bool:
    libraries = (sysconfig.get_path(key) for key in ("stdlib", "purelib", "platlib"))
    return not filename.startswith(("<", str(Path(__file__).parents[1]), *libraries))


def _loaded(target: str, fallback: str, modules: list[ModuleType]) -> LoadedTarget:
    for module in modules:
        value = _find(module)
        if value is not None:
            own = getattr(value, "name", None) if value is getattr(module, "app", None) else None
            return LoadedTarget(
                name=own if isinstance(own, str) else _valid_name(fallback),
                value=value,
                module=module.__name__,
                source=module.__file__ or module.__name__,
            )
    raise AgentDefinitionError(_nothing_found(target, modules[-1]))


def _find(module: ModuleType) -> object | None:
    app: object = getattr(module, "app", None)
    if hasattr(app, "root_agent"):  # otherwise it is a web application
        return app
    return getattr(module, "root_agent", None)


def _valid_name(text: str) -> str:
    name = re.sub(r"^[^A-Za-z]+", "", re.sub(r"[^A-Za-z0-9_-]", "_", text))[:64]
    return name if name and name != "user" else f"{name or 'agent'}_app"


def _nothing_found(target: str, module: ModuleType) -> str:
    head = f"{target}: {module.__file__} defines neither `root_agent` nor an `app` with one"
    agents = [name for name, value in _defined(module) if _is_node(value)]
    if agents:
        return f"{head}; its agent is called `{agents[0]}`: name it `root_agent`."
    if "root_agent" in vars(module):
        return f"{head}: `root_agent` is {module.root_agent!r}."
    names = [name for name, _ in _defined(module)]
    listed = ", ".join(names[:_SHOWN]) + (", ..." if len(names) > _SHOWN else "")
    return f"{head}; it defines {listed or 'nothing'}. Assign your agent to `root_agent`."


def _is_node(value: object) -> bool:
    """Return whether a value looks like an agent or a graph, also one of google-adk."""
    return hasattr(value, "sub_agents") or (hasattr(value, "edges") and hasattr(value, "graph"))


def _defined(module: ModuleType) -> Iterator[tuple[str, object]]:
    """Yield the public names that the module itself defines."""
    for name, value in vars(module).items():
        foreign = getattr(value, "__module__", module.__name__) != module.__name__ and callable(
            value
        )
        if not (name.startswith("_") or isinstance(value, ModuleType) or foreign):
            yield name, value
