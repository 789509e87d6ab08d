"""Lets agents, apps and `AgentTool`s of google-adk take objects of this package."""

import functools
import importlib
import sys
from collections.abc import Callable
from importlib.machinery import ModuleSpec, PathFinder
from typing import Any, cast

_TAKERS = {
    "google.adk.agents.base_agent": "BaseAgent",
    "google.adk.apps.app": "App",
    "google.adk.tools.agent_tool": "AgentTool",
}
"""Classes of google-adk whose constructors check the classes of what they are given, by module."""
_ROOT = __name__.partition(".")[0]


def find_taker(fullname: str, path: Any, target: Any) -> ModuleSpec | None:
    """Find a module of google-adk that has one of these classes, which takes ours once loaded."""
    if fullname not in _TAKERS:
        return None
    spec = PathFinder.find_spec(fullname, path, target)
    if spec is not None and spec.loader is not None:
        loader: Any = spec.loader
        execute: Callable[[Any], None] = loader.exec_module

        def exec_module(module: Any) -> None:
            execute(module)
            _let_take(module, _TAKERS[fullname])

        loader.exec_module = exec_module
    return spec


def let_loaded_take() -> None:
    """Have the classes take ours whose modules have been loaded before this package."""
    for module, name in _TAKERS.items():
        if module in sys.modules:
            _let_take(sys.modules[module], name)


def _let_take(module: Any, name: str) -> None:
    kind: Any = getattr(module, name)
    make: Callable[..., None] = kind.__init__

    @functools.wraps(make)
    def made(self: Any, *args: Any, **fields: Any) -> None:
        given = [shown(value) for value in args]
        make(self, *given, **{field: shown(value) for field, value in fields.items()})

    kind.__init__ = made


def shown(value: Any) -> Any:
    """Return an object of this package as google-adk sees it; any other as it is."""
    if isinstance(value, list):
        return [shown(item) for item in cast("list[Any]", value)]
    kinds = cast("type[Any]", type(value)).__mro__
    if not any(kind.__module__.startswith(f"{_ROOT}.") for kind in kinds):
        return value
    if any(kind.__module__.startswith("google.adk.") for kind in kinds):
        return value
    return importlib.import_module(f"{_ROOT}.extras").for_google_adk(value)
