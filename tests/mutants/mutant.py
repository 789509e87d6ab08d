"""A seeded bug of our own code."""

import inspect
import textwrap
from collections.abc import Callable
from dataclasses import dataclass
from types import FunctionType
from typing import Any

import pytest

Breaks = Callable[[pytest.MonkeyPatch], None]


@dataclass(frozen=True, kw_only=True)
class Mutant:
    """What is broken, and the check that has to notice."""

    name: str
    """What the broken code does."""
    check: str
    """Name of a check in `tests.mutants.checks`."""
    breaks: Breaks
    """Breaks it."""


def rewritten(function: Any, *changes: tuple[str, str]) -> Any:
    """A function with some of its text replaced, where no wrapper could express the bug."""
    source = textwrap.dedent(inspect.getsource(function))
    for old, new in changes:
        assert old in source, f"{old!r} is not in {function.__qualname__} any more"
        source = source.replace(old, new)
    found: dict[str, FunctionType] = {}
    code = compile(source, f"<mutant of {function.__qualname__}>", "exec")
    exec(code, function.__globals__, found)  # noqa: S102 - our own text
    return found[function.__name__]


def replaces(owner: Any, name: str, broken: Any) -> Breaks:
    """Break one function or method by putting another in its place."""
    return lambda patch: patch.setattr(owner, name, broken)


def rewrites(owner: Any, name: str, *changes: tuple[str, str]) -> Breaks:
    """Break one function or method by changing its text."""
    return lambda patch: patch.setattr(owner, name, rewritten(getattr(owner, name), *changes))


def wraps(owner: Any, name: str, broken: Callable[..., Any]) -> Breaks:
    """Break one function or method by what `broken` makes of the original and its arguments."""

    def breaks(patch: pytest.MonkeyPatch) -> None:
        original = getattr(owner, name)
        patch.setattr(owner, name, lambda *args, **kwargs: broken(original, *args, **kwargs))

    return breaks


def mutant(name: str, check: str, *breaks: Breaks) -> Mutant:
    """A mutant that breaks all of these at once."""

    def broken(patch: pytest.MonkeyPatch) -> None:
        for one in breaks:
            one(patch)

    return Mutant(name=name, check=check, breaks=broken)


async def does_nothing(*_args: Any, **_options: Any) -> None:
    """In the place of a coroutine function."""
    return
