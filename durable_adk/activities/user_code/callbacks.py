"""Calls callbacks: the plugins' first, then the agent's own."""

import inspect
from collections.abc import Callable, Sequence
from typing import Any

from durable_adk.calling import call, contained
from durable_adk.errors import CallbackError, DurableAdkError, raised
from durable_adk.plugins.base_plugin import HookName
from durable_adk.plugins.plugin_manager import PluginManager

_PLUGINS_NAMES = {"args": "tool_args", "tool_response": "result"}
"""Plugin argument names that differ from those of agent callbacks (TRAP-50)."""


def as_list(callbacks: Any) -> list[Callable[..., Any]]:
    """Return a callback field as a list (CB-2)."""
    if callbacks is None:
        return []
    return list(callbacks) if isinstance(callbacks, Sequence) else [callbacks]  # pyright: ignore[reportUnknownArgumentType]: fields are unions of callables


async def answer_of(plugins: PluginManager, hook: HookName, callbacks: Any, **kwargs: Any) -> Any:
    """Return the plugins' value or, if they return None, that of the agent's callbacks (PLG-3).

    Args:
        plugins: The app's plugins.
        hook: The name of the hook.
        callbacks: The agent's own callbacks, as stored in its field.
        **kwargs: The callbacks' arguments by name.
    """
    named = {_PLUGINS_NAMES.get(name, name): value for name, value in kwargs.items()}
    answer = await plugins.run(hook, **named)
    return await first_answer(hook, callbacks, **kwargs) if answer is None else answer


async def first_answer(hook: str, callbacks: Any, **kwargs: Any) -> Any:
    """Run callbacks in order until one returns a value other than None (CB-1, CB-2, CB-5).

    They are called with ADK's keyword names, or by position if their own names differ (CB-4).

    Raises:
        CallbackError: A callback raised; it is not retried (CB-12, TRAP-49).
    """
    for callback in as_list(callbacks):
        try:
            answer = await contained(_call_bound(callback, kwargs))
        except DurableAdkError:
            raise
        except Exception as error:
            name = getattr(callback, "__name__", type(callback).__name__)
            kind = type(error).__name__
            raise raised(CallbackError, kind, f"{hook} {name} raised {kind}: {error}") from error
        if answer is not None:
            return answer
    return None


async def _call_bound(callback: Callable[..., Any], kwargs: dict[str, Any]) -> Any:
    try:
        inspect.signature(callback).bind(**kwargs)
    except TypeError:
        return await call(callback, *kwargs.values())
    return await call(callback, **kwargs)
