"""The plugins of an app, run in their order."""

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

    It remembers nothing between two hooks, so any worker can run the next one.
    """

    def __init__(
        self, plugins: Iterable[BasePlugin] | None = None, close_timeout: float = 5.0
    ) -> None:
        """Take the plugins, in the order in which their hooks are to run.

        Args:
            plugins: The plugins.
            close_timeout: Seconds that each may take to close.

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
        """The hooks that at least one plugin defines."""
        return frozenset(hook for hook, plugins in self._defining.items() if plugins)

    def get_plugin(self, plugin_name: str) -> BasePlugin | None:
        """The plugin of that name."""
        return self._by_name.get(plugin_name)

    async def run(self, hook: HookName, **kwargs: Any) -> Any:
        """Run a hook over the plugins until one answers with something else than None (PLG-3).

        Args:
            hook: Which one.
            **kwargs: What `BasePlugin` says the hook is given.

        Raises:
            CallbackError: One raised; a RuntimeError that names plugin and hook (PLG-4).
            TransientError: A store was away for a moment; the step may be tried again.
        """
        for plugin in self._defining[hook]:
            answer = await _run(plugin, hook, kwargs)
            if answer is not None:
                return answer
        return None

    async def notify(self, hook: HookName, **kwargs: Any) -> None:
        """Tell every plugin of an error: none can answer, and what one raises is only logged.

        So the caller gets the error that is being reported.
        """
        for plugin in self._defining[hook]:
            try:
                await _run(plugin, hook, kwargs)
            except Exception:  # noqa: BLE001 - whatever it is: a notice changes no outcome
                _LOG.exception("plugin.notice_failed", plugin=plugin.name, hook=hook)

    async def close(self) -> None:
        """Close all plugins side by side, whatever the others do.

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
    """The event to commit when `on_event_callback` answered with another (PLG-6, RUN-26).

    It has what the replacement sets and else what it had. Id, invocation and time stay in any
    case: by them a step that is run again makes the same event.
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
        raise  # not the plugin's fault: wrapped, it would end the run
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
    """None, or why the plugin could not be closed."""
    try:
        async with asyncio.timeout(limit):
            await contained(call(plugin.close))
    except TimeoutError:
        return f"{plugin.name!r} did not finish in {limit:g} s"
    except Exception as error:  # noqa: BLE001 - collected: the others are to be closed too
        return f"{plugin.name!r} raised {type(error).__name__}: {text_of(error)}"
    return None
