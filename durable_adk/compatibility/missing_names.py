"""Says, where a name of ADK's is imported that is not here, why it is not, or what to use.

`missing_names.json` is made of docs/adk-compatibility.md by ``python -m tests.support.missing``.
"""

import json
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from types import ModuleType
from typing import Any

_ROOT = "durable_adk"
_TABLE = Path(__file__).with_name("missing_names.json")


class _Finder(MetaPathFinder):
    """Explains missing modules, and makes modules explain their missing names."""

    def __init__(self) -> None:
        table = json.loads(_TABLE.read_text(encoding="utf-8"))
        self._modules: dict[str, str] = table["modules"]
        self.names: dict[str, dict[str, str]] = table["names"]

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """See the base class.

        Raises:
            ModuleNotFoundError: The module is one of ADK's that is not here.
        """
        root, _, name = fullname.partition(".")
        if root != _ROOT:
            return None
        if name in self._modules:
            raise ModuleNotFoundError(_explained(fullname, self._modules[name]), name=fullname)
        spec = PathFinder.find_spec(fullname, path, target) if name in self.names else None
        if spec is not None and spec.loader is not None:
            _explain(spec.loader, getter(name, self.names[name]))
        return spec


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
    """Return the ``__getattr__`` of a module."""
    whole = f"{_ROOT}.{module}" if module else _ROOT

    def missing(name: str) -> Any:
        if name in reasons:
            raise ImportError(_explained(f"{whole}.{name}", reasons[name]), name=whole)
        raise AttributeError(f"module {whole!r} has no attribute {name!r}")

    return missing


def _explained(path: str, reason: str) -> str:
    return f"{path}, which google-adk has, is not here: {reason}. See docs/adk-compatibility.md."


def install() -> Callable[[str], Any]:
    """Explain the missing names of all modules from now on; return that of the package's root."""
    finder = _Finder()
    sys.meta_path.insert(0, finder)
    return getter("", finder.names.get("", {}))
