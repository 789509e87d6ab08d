"""The public names of a package and their signatures, as JSON: google-adk's, or ours."""

import importlib
import inspect
import pkgutil
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from types import ModuleType
from typing import Any

from pydantic import BaseModel

PACKAGES = (
    *("agents", "apps", "artifacts", "auth", "code_executors", "errors", "events", "examples"),
    *("memory", "models", "planners", "plugins", "runners", "sessions", "tools", "utils"),
)
"""Those whose names are compared."""

Names = dict[str, dict[str, Any]]
"""By module and name: `kind`, and what `_described` tells of it."""


def public_names(root: str, wanted: Mapping[str, Iterable[str]] | None = None) -> Names:
    """Return what there is of the wanted names, by module; None: all public names below `root`."""
    paths = _modules(root) if wanted is None else wanted
    found = {path: module for path in paths if (module := _import(root, path))}
    return {
        path: _names(root, module, _listed(root, module) if wanted is None else wanted[path])
        for path, module in found.items()
    }


def packages(root: str) -> list[str]:
    """The public packages and modules right below the root."""
    below = pkgutil.iter_modules(importlib.import_module(root).__path__)
    return [found.name for found in below if not found.name.startswith("_")]


def _modules(root: str) -> Iterator[str]:
    for package in PACKAGES:
        if (module := _import(root, package)) is None:
            continue
        yield package
        for found in pkgutil.walk_packages(getattr(module, "__path__", []), f"{root}.{package}."):
            path = found.name.removeprefix(f"{root}.")
            if not any(part.startswith("_") for part in path.split(".")):
                yield path


def _import(root: str, path: str) -> ModuleType | None:
    try:
        return importlib.import_module(f"{root}.{path}")
    except Exception:  # noqa: BLE001  # an optional package is missing, or it is run by a tool only
        return None


def _listed(root: str, module: ModuleType) -> list[str]:
    listed = getattr(module, "__all__", None)
    return listed or [name for name in vars(module) if _own(root, module, name)]


def _names(root: str, module: ModuleType, names: Iterable[str]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name in names:
        with suppress(ImportError, AttributeError):  # of an optional package, or missing
            found[name] = _described(root, getattr(module, name))
    return found


def _own(root: str, module: ModuleType, name: str) -> bool:
    """Whether a module without `__all__` defines the class, function or object."""
    value = getattr(module, name)
    if name.startswith("_") or inspect.ismodule(value):
        return False
    if inspect.isclass(value) or inspect.isfunction(value):
        return value.__module__ == module.__name__
    return type(value).__module__.startswith(f"{root}.")


def _described(root: str, value: Any) -> dict[str, Any]:
    if inspect.isclass(value):
        return {
            "kind": "class",
            "bases": [base.__name__ for base in value.__mro__ if base.__module__.startswith(root)],
            "made with": _made(value),
            "members": dict(_members(root, value)),
            "attributes": sorted(_attributes(root, value)),
        }
    if inspect.isfunction(value):
        return {"kind": "function"} | _signature(value)
    return {"kind": "object"}


def _made(made: type) -> dict[str, str]:
    """The fields of a model, or the parameters of a constructor."""
    if issubclass(made, BaseModel):
        return {
            name: f"keyword {'' if field.is_required() else _default(field.get_default())}".strip()
            for name, field in made.model_fields.items()
        }
    own = any("__init__" in vars(base) for base in made.__mro__ if base.__module__ != "builtins")
    return _signature(made.__init__)["parameters"] if own else {}


def _members(root: str, owner: type) -> Iterator[tuple[str, Any]]:
    """Public methods and properties that the root's own classes give it."""
    checks = getattr(owner, "__pydantic_decorators__", None)
    inner = {
        "model_post_init",
        *(checks.field_validators | checks.model_validators if checks else ()),
    }
    for name in dir(owner):
        source = next((base for base in owner.__mro__ if name in vars(base)), None)
        if (name.startswith("_") and name != "_run_async_impl") or name in inner:
            continue
        if source is None or not source.__module__.startswith(root):
            continue
        value = inspect.getattr_static(owner, name)
        if isinstance(value, staticmethod | classmethod):
            value = value.__func__
        if inspect.isfunction(value):
            yield name, {"kind": "function"} | _signature(value)
        elif isinstance(value, property) or hasattr(value, "func"):
            yield name, {"kind": "property"}


def _attributes(root: str, owner: type) -> Iterator[str]:
    """Names that the root's own constructors use, what they set among them."""
    for base in owner.__mro__:
        if base.__module__.startswith(root) and inspect.isfunction(vars(base).get("__init__")):
            yield from base.__init__.__code__.co_names


def _signature(function: Any) -> dict[str, Any]:
    parameters = [*inspect.signature(function).parameters.values()]
    returns = _type(inspect.get_annotations(function).get("return", ""))
    return {
        "parameters": {
            each.name: _kind(each) for each in parameters if each.name not in {"self", "cls"}
        },
        "called": _called(function, returns),
        "returns": returns,
    }


def _kind(parameter: inspect.Parameter) -> str:
    if parameter.kind in (parameter.VAR_KEYWORD, parameter.VAR_POSITIONAL):
        return "**"
    keyword = "keyword " if parameter.kind is parameter.KEYWORD_ONLY else ""
    empty = parameter.default is parameter.empty
    return (keyword + ("" if empty else _default(parameter.default))).strip()


def _called(function: Any, returns: str) -> str:
    if inspect.isasyncgenfunction(function) or returns.startswith("Async"):
        return "async for"
    return "await" if inspect.iscoroutinefunction(function) else "plain"


def _default(value: Any) -> str:
    return f"={value!r}" if value is None or isinstance(value, str | int | float) else "=..."


def _type(annotation: Any) -> str:
    """An annotation without its modules, as `A | None`, which is how both are compared."""
    text = annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)
    text = re.sub(r"['\"]|\b[\w.]+\.(?=\w)", "", text)
    while found := re.search(r"Optional\[((?:[^\[\]]|\[[^\[\]]*\])*)\]", text):
        text = text.replace(found[0], f"{found[1]} | None")
    return text.replace("List[", "list[").replace("Dict[", "dict[").replace(" ", "")
