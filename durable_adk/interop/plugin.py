"""Conversion of google-adk's plugins."""

from typing import Any

from google.adk.plugins.base_plugin import BasePlugin as AdkBasePlugin

from durable_adk.agents.base_agent import BaseAgent
from durable_adk.calling import call
from durable_adk.context.activity import Context
from durable_adk.events.event import Event
from durable_adk.interop.callbacks import convert_result, with_adk_objects
from durable_adk.interop.context import adk_agent, shared_context
from durable_adk.interop.values import adk_event, our_event
from durable_adk.plugins.base_plugin import HOOKS, BasePlugin, HookName


class AdkPlugin(BasePlugin):
    """A plugin of google-adk; its hooks receive google-adk's objects.

    Args:
        adk: The plugin.
    """

    def __init__(self, adk: AdkBasePlugin) -> None:
        super().__init__(adk.name)
        self.adk = adk
        for hook in HOOKS:
            method = getattr(adk, hook)
            if getattr(method, "__func__", None) is not getattr(AdkBasePlugin, hook):
                setattr(self, hook, _Hook(adk, hook))

    async def close(self) -> None:
        """See base class."""
        await call(self.adk.close)


class _Hook:
    """A hook of a plugin of google-adk."""

    def __init__(self, adk: AdkBasePlugin, hook: HookName) -> None:
        self._adk = adk
        self._hook = hook

    async def __call__(self, **kwargs: Any) -> Any:
        ours = next(value for value in kwargs.values() if isinstance(value, Context))
        with shared_context(ours) as shared:
            adk_kwargs = {name: _shown(name, value, shared) for name, value in kwargs.items()}
            answer = await with_adk_objects(getattr(self._adk, self._hook), adk_kwargs, shared)
        event = kwargs.get("event")
        if isinstance(event, Event):
            our_event(adk_kwargs["event"])  # adopts the hook's changes in place
            return None if answer is None else our_event(answer)
        return convert_result(answer)


def _shown(name: str, value: Any, shared: Any) -> Any:
    if name == "invocation_context":
        return shared._invocation_context
    if isinstance(value, BaseAgent):
        return adk_agent(value)
    return adk_event(value) if isinstance(value, Event) else value
