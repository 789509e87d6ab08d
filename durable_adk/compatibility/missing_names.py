"""Errors for importing missing names of ADK, which give the reason or the replacement.

`missing_names.json` has the reasons.
"""

import importlib
import json
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from types import ModuleType
from typing import Any

_ROOT = "durable_adk"
_TABLE = Path(__file__).with_name("missing_names.json")
_OF_GOOGLE_ADK = ("models", "tools")
"""Packages whose missing modules and names are loaded from google-adk, where it is installed:
agents of this package accept its models and tools."""
_EXTRA = 'pip install "durable-adk[adk]"'


class _Finder(MetaPathFinder):
    """Raises errors with explanations for missing modules, and for missing names of modules."""

    def __init__(self) -> None:
        table = json.loads(_TABLE.read_text(encoding="utf-8"))
        self._modules: dict[str, str] = table["modules"]
        self.names: dict[str, dict[str, str]] = table["names"]

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """See the base class.

        Raises:
            ModuleNotFoundError: ADK has the module and this package does not.
        """
        root, _, name = fullname.partition(".")
        if root != _ROOT:
            return None
        if self._is_google_adks(name):
            return ModuleSpec(fullname, _Alias())
        if name in self._modules:
            raise ModuleNotFoundError(_explained(fullname, self._modules[name]), name=fullname)
        spec = PathFinder.find_spec(fullname, path, target) if name in self.names else None
        if spec is not None and spec.loader is not None:
            _explain(spec.loader, getter(name, self.names[name]))
        return spec

    def _is_google_adks(self, name: str) -> bool:
        """Whether a module, or a package above it, is missing here and loaded from google-adk."""
        parts = name.split(".")
        above = {".".join(parts[: length + 1]) for length in range(len(parts))}
        return parts[0] in _OF_GOOGLE_ADK and not above.isdisjoint(self._modules) and _has_extra()


class _Alias(Loader):
    """Loads a module of google-adk under a name of this package."""

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        """See base class."""
        module = importlib.import_module(_google_adks(spec.name.removeprefix(f"{_ROOT}.")))
        spec.loader_state = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        """Restore the module's own spec, which the import has replaced."""
        spec = module.__spec__
        module.__spec__ = spec and spec.loader_state


def _google_adks(name: str) -> str:
    return f"google.adk.{name}"


def _has_extra() -> bool:
    # Imported only when needed: it takes longer than importing the whole package.
    return importlib.import_module("durable_adk.compatibility.google_version").has_google_adk()


def _explain(loader: Any, missing: Callable[[str], Any]) -> None:
    execute: Callable[[ModuleType], None] = loader.exec_module

    def exec_module(module: ModuleType) -> None:
        execute(module)
        own: Callable[[str], Any] | None = module.__dict__.get("__getattr__")

        def found(name: str) -> Any:
            if own is not None:
                with suppress(AttributeError):
                    return own(name)
            return missing(name)

        module.__dict__["__getattr__"] = found

    loader.exec_module = exec_module


def getter(module: str, reasons: dict[str, str]) -> Callable[[str], Any]:
    """Return the ``__getattr__`` for a module's missing names."""
    whole = f"{_ROOT}.{module}" if module else _ROOT

    def missing(name: str) -> Any:
        if name in reasons and module.partition(".")[0] in _OF_GOOGLE_ADK and _has_extra():
            return getattr(importlib.import_module(_google_adks(module)), name)
        if name in reasons:
            raise ImportError(_explained(f"{whole}.{name}", reasons[name]), name=whole)
        raise AttributeError(f"module {whole!r} has no attribute {name!r}")

    return missing


def _explained(path: str, reason: str) -> str:
    own = path.removeprefix(f"{_ROOT}.").partition(".")[0] in _OF_GOOGLE_ADK
    extra = f" With {_EXTRA} it is google-adk's own." if own else ""
    return (
        f"{path}, which google-adk has, is not here: {reason}.{extra} See "
        "docs/use/adk-compatibility.md."
    )


def install() -> Callable[[str], Any]:
    """Explain the missing names of all modules from now on; return the root's ``__getattr__``.

    The sandbox executes the package's root again for each workflow; all executions share the one
    finder of the process.
    """
    finder = next((one for one in sys.meta_path if isinstance(one, _Finder)), None)
    if finder is None:
        finder = _Finder()
        sys.meta_path.insert(0, finder)
    return getter("", finder.names.get("", {}))
