"""The plugins of an app, run in order."""

import asyncio
from collections.abc import Iterable
from typing import Any

from durable_adk.calling import call, contained
from durable_adk.errors import (
    AgentDefinitionError,
    CallbackError,
    TransientError,
    raised,
    reported_as,
    text_of,
)
from durable_adk.events.event import Event
from durable_adk.log import get_logger
from durable_adk.plugins.base_plugin import HOOKS, BasePlugin, HookName, check_answer

_LOG = get_logger(__name__)
_KEPT = frozenset({"id", "invocation_id", "timestamp"})


class PluginManager:
    """Runs hooks over plugins (PLG-3, PLG-4).

    It keeps no state between hooks, so any worker can run the next one.
    """

    def __init__(
        self, plugins: Iterable[BasePlugin] | None = None, close_timeout: float = 5.0
    ) -> None:
        """Set the plugins, in the order in which their hooks run.

        Args:
            plugins: The plugins.
            close_timeout: Maximum seconds for closing each plugin.

        Raises:
            AgentDefinitionError: A name occurs twice (PLG-1).
        """
        self.plugins = tuple(plugins or ())
        self._close_timeout = close_timeout
        self._by_name = {plugin.name: plugin for plugin in self.plugins}
        if len(self._by_name) < len(self.plugins):
            names = [plugin.name for plugin in self.plugins]
            twice = next(name for name in names if names.count(name) > 1)
            raise AgentDefinitionError(f"Two plugins are named {twice!r}; names are unique.")
        self._defining: dict[HookName, list[BasePlugin]] = {
            hook: [plugin for plugin in self.plugins if hook in plugin.hooks()] for hook in HOOKS
        }

    def hooks(self) -> frozenset[HookName]:
        """Return the hooks that at least one plugin defines."""
        return frozenset(hook for hook, plugins in self._defining.items() if plugins)

    def get_plugin(self, plugin_name: str) -> BasePlugin | None:
        """Return the plugin with this name, or None."""
        return self._by_name.get(plugin_name)

    async def run(self, hook: HookName, **kwargs: Any) -> Any:
        """Run a hook over the plugins until one returns a value other than None (PLG-3).

        Args:
            hook: The hook.
            **kwargs: The hook's arguments, as in `BasePlugin`.

        Raises:
            CallbackError: A plugin raised; a RuntimeError that names plugin and hook (PLG-4).
            TransientError: A store was temporarily unavailable; the step may be retried.
        """
        for plugin in self._defining[hook]:
            answer = await _run(plugin, hook, kwargs)
            if answer is not None:
                return answer
        return None

    async def notify(self, hook: HookName, **kwargs: Any) -> None:
        """Call an error hook of every plugin; ignore return values and only log exceptions.

        So the caller gets the error that is being reported.
        """
        for plugin in self._defining[hook]:
            try:
                await _run(plugin, hook, kwargs)
            except Exception:  # noqa: BLE001 - user code may raise anything; a notice changes no outcome
                _LOG.exception("plugin.notice_failed", plugin=plugin.name, hook=hook)

    async def close(self) -> None:
        """Close all plugins concurrently; a failure does not affect the others.

        Raises:
            CallbackError: Some could not be closed; a RuntimeError that names them all.
        """
        outcomes = await asyncio.gather(
            *(_closed(plugin, self._close_timeout) for plugin in self.plugins)
        )
        failures = [failure for failure in outcomes if failure]
        if failures:
            message = f"Failed to close plugins: {', '.join(failures)}"
            raise raised(CallbackError, "RuntimeError", message)


def replaced(event: Event, replacement: Event) -> Event:
    """Return the event to commit after `on_event_callback` returned a replacement (PLG-6, RUN-26).

    Fields that the replacement does not set keep their values. Id, invocation and timestamp are
    always kept, so that a retried step produces the same event.
    """
    changes = replacement.model_fields_set - _KEPT
    if not replacement.author:
        changes -= {"author"}
    return event.model_copy(update={name: getattr(replacement, name) for name in changes})


async def _run(plugin: BasePlugin, hook: HookName, kwargs: dict[str, Any]) -> Any:
    event: Event | None = kwargs.get("event")
    whole = event is not None and not event.partial
    try:
        answer = await contained(call(getattr(plugin, hook), **kwargs))
    except TransientError:
        raise  # not the plugin's fault; as a CallbackError, it would end the run
    except Exception as error:
        text = f"Error in plugin {plugin.name!r} during {hook!r} callback: {text_of(error)}"
        with reported_as(CallbackError):
            raise RuntimeError(text) from error  # as in ADK
    check_answer(hook, answer, f"The plugin {plugin.name!r}")
    seen = event if answer is None else answer
    if whole and seen is not None and seen.partial:
        raise CallbackError(
            f"The plugin {plugin.name!r} answered {hook} with partial=True, so the event could not "
            "be stored. Leave `partial` as it was."
        )
    return answer


async def _closed(plugin: BasePlugin, limit: float) -> str | None:
    """Close a plugin; return None, or why it failed."""
    try:
        async with asyncio.timeout(limit):
            await contained(call(plugin.close))
    except TimeoutError:
        return f"{plugin.name!r} did not finish in {limit:g} s"
    except Exception as error:  # noqa: BLE001 - collected: the others must be closed, too
        return f"{plugin.name!r} raised {type(error).__name__}: {text_of(error)}"
    return None
