"""Guards a custom agent's body: operations that are not replay-safe raise, in process too.

A body is replayed from its first line whenever another worker takes over its invocation. A clock,
random number or I/O would then return a different result and the run could not continue. The body's
global names are therefore replaced by guarded ones, so that a mistake shows at the first run, in a
unit test without a server, and not only after a crash. Functions that the body calls are not
guarded.
"""

import asyncio
import builtins
import datetime as dt
import dis
import inspect
import os
import random
import secrets
import subprocess
import threading
import time
import types
import uuid
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping
from typing import Any, NoReturn

from durable_adk.agents.base_agent import BaseAgent
from durable_adk.calling.code_scope import refused
from durable_adk.context.loop import InvocationContext
from durable_adk.errors import DeterminismError
from durable_adk.events.event import Event

_EVERYTHING = frozenset({"*"})
_BANNED: Mapping[types.ModuleType, frozenset[str]] = {
    time: frozenset(name for name in dir(time) if callable(getattr(time, name)))
    - {"strftime", "strptime", "struct_time", "asctime", "mktime"},
    random: _EVERYTHING,
    secrets: _EVERYTHING,
    subprocess: _EVERYTHING,
    uuid: frozenset({"uuid1", "uuid4", "getnode"}),
    os: frozenset({"environ", "getenv", "urandom", "system", "popen", "listdir", "open", "getpid"}),
    threading: frozenset({"Thread", "Timer"}),
    asyncio: frozenset({"to_thread", "run", "create_subprocess_exec", "create_subprocess_shell"}),
}
_BETWEEN = frozenset({"CACHE", "PRECALL", "PUSH_NULL", "EXTENDED_ARG"})
"""Instructions that may occur between loading a name and loading its attribute."""
_CLIENTS = frozenset({"requests", "httpx", "aiohttp", "urllib", "urllib3", "socket", "sqlite3"})
"""Packages whose only use is I/O."""


def body(
    agent: BaseAgent, *, sleep: Callable[..., Any] | None = None
) -> Callable[[InvocationContext], AsyncGenerator[Event, None]]:
    """Return the agent's `_run_async_impl` with guarded globals.

    A banned call raises DeterminismError, which names the call and suggests where to move it.

    Args:
        agent: The agent whose body to guard.
        sleep: Replacement for `asyncio.sleep`; None keeps the original.
    """
    method = agent._run_async_impl  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]: ADK's name of the body
    function = getattr(method, "__func__", None)
    if not isinstance(function, types.FunctionType):
        return method
    return types.MethodType(_guarded_function(function, sleep), agent)


def findings(agent: Any) -> list[str]:
    """Return the uses in the agent's body that are not replay-safe, with file and line.

    The body's code is inspected, not run, so uses through functions, parameters or attributes of
    objects are not found.

    Args:
        agent: The agent whose `_run_async_impl` to inspect; may be one of google-adk's.
    """
    function = getattr(agent._run_async_impl, "__func__", None)  # noqa: SLF001 - ADK's name of the body
    if not isinstance(function, types.FunctionType):
        return []
    return [
        f"{name} ({function.__code__.co_filename}:{line})"
        for code in _with_inner(function.__code__)
        for name, line in _refused_in(code, function.__globals__)
    ]


def _with_inner(code: types.CodeType) -> Iterator[types.CodeType]:
    """Yield the code of a function and of all functions and comprehensions inside it."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _with_inner(constant)


def _refused_in(code: types.CodeType, names: dict[str, Any]) -> Iterator[tuple[str, int | None]]:
    """Yield the banned names that the code loads, such as ``time.time``, and their lines."""
    value: Any = None
    path = ""
    for instruction in dis.get_instructions(code):
        loaded = instruction.argval
        if instruction.opname == "LOAD_GLOBAL":
            path, value = (
                loaded,
                _guarded(names[loaded]) if loaded in names else _BUILTINS.get(loaded),
            )
        elif instruction.opname in {"LOAD_ATTR", "LOAD_METHOD"} and value is not None:
            path = f"{path}.{loaded}"
            try:
                value = getattr(value, loaded, None)
            except DeterminismError:  # a value such as os.environ, banned at its use
                value = _Banned(path)
        elif instruction.opname not in _BETWEEN:
            value = None
        if isinstance(value, _Banned):
            yield value.name, instruction.positions.lineno if instruction.positions else None
            value = None


def _guarded_function(
    function: types.FunctionType, sleep: Callable[..., Any] | None
) -> types.FunctionType:
    swapped = {name: _guarded(function.__globals__[name]) for name in _names(function)}
    if sleep is not None:
        swapped |= _sleeping(function, sleep)
    swapped |= {name: refused for name, refused in _BUILTINS.items() if name in _used(function)}
    guarded = types.FunctionType(
        function.__code__,
        {"__builtins__": builtins, **function.__globals__, **swapped},
        function.__name__,
        function.__defaults__,
        function.__closure__,
    )
    guarded.__kwdefaults__ = function.__kwdefaults__
    return guarded


def _sleeping(function: types.FunctionType, sleep: Callable[..., Any]) -> dict[str, Any]:
    """Return replacements for the body's references to asyncio and `asyncio.sleep`."""
    swapped: dict[str, Any] = {}
    for name in _used(function) & function.__globals__.keys():
        value = function.__globals__[name]
        if value is asyncio:
            refused = dict.fromkeys(_BANNED[asyncio])
            swapped[name] = _Module(value, {**refused, "sleep": sleep})
        elif value is asyncio.sleep:
            swapped[name] = sleep
    return swapped


def _used(function: types.FunctionType) -> set[str]:
    return set(function.__code__.co_names)


def _names(function: types.FunctionType) -> set[str]:
    """Return the global names used by the body that must be replaced."""
    known = _used(function) & function.__globals__.keys()
    return {name for name in known if _guarded(function.__globals__[name]) is not None}


def _guarded(value: Any) -> Any:
    """Return the guarded form of a global, or None if it needs no guard."""
    if isinstance(value, types.ModuleType):
        banned = _EVERYTHING if value.__name__.partition(".")[0] in _CLIENTS else _BANNED.get(value)
        if value is dt:
            return _Module(value, {"datetime": _DateTime, "date": _Date})
        return None if banned is None else _Module(value, dict.fromkeys(banned))
    if value is dt.datetime:
        return _DateTime
    if value is dt.date:
        return _Date
    for module, banned in _BANNED.items():
        name = getattr(value, "__name__", "")
        if (name in banned or banned == _EVERYTHING) and getattr(module, name, None) is value:
            return _Banned(f"{module.__name__}.{name}")
    return None


class _Module:
    """A proxy of a module with some members banned or replaced."""

    def __init__(self, module: types.ModuleType, members: Mapping[str, Any]) -> None:
        self._module = module
        self._members = members

    def __getattr__(self, name: str) -> Any:
        if name in self._members and self._members[name] is not None:
            return self._members[name]
        value = getattr(self._module, name)
        if name not in self._members and "*" not in self._members:
            return value
        refused = _Banned(f"{self._module.__name__}.{name}")
        return (
            refused if callable(value) else refused()
        )  # a value such as os.environ is used at once


class _Banned:
    """Replaces a function or value that the body must not use."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __call__(self, *_: Any, **__: Any) -> NoReturn:
        error = DeterminismError(
            f"{self.name} may not be used in _run_async_impl ({_location()}): the body is replayed "
            "after a crash, and this would answer differently then. Do it in ctx.step, in a tool "
            "or in a callback, and read the result from ctx.session.state; to wait, await "
            "asyncio.sleep."
        )
        raise refused(error)


_BUILTINS = {"open": _Banned("open"), "input": _Banned("input")}


def _location() -> str:
    """Return file and line of the body's call."""
    frame = inspect.currentframe()
    while frame is not None and frame.f_code.co_filename == __file__:
        frame = frame.f_back
    return f"{frame.f_code.co_filename}:{frame.f_lineno}" if frame else "unknown place"


class _Instances(type):
    """Makes isinstance on a guarded class behave like on the original class."""

    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, cls.__mro__[1])


class _Date(dt.date, metaclass=_Instances):
    today = staticmethod(_Banned("date.today"))


class _DateTime(dt.datetime, metaclass=_Instances):
    now = staticmethod(_Banned("datetime.now"))
    utcnow = staticmethod(_Banned("datetime.utcnow"))
    today = staticmethod(_Banned("datetime.today"))
