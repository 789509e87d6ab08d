"""The apps that the workers of this process serve.

Workflow code cannot receive objects and must look them up. This module passes through the sandbox,
so that the workflow sees the same registry as its worker. A registry is named after its worker's
task queue, because one process may run several workers.
"""

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import Self

from durable_adk.agents.base_agent import BaseAgent
from durable_adk.apps.app import App
from durable_adk.errors import InvalidRequestError, UnknownAppError


class AppRegistry:
    """Apps by name."""

    def __init__(self, apps: Iterable[App]) -> None:
        self._apps: Mapping[str, App] = {app.name: app for app in apps}

    def replacing(self, app: App) -> Self:
        """Return a registry with this app instead of the one of its name."""
        return type(self)([*self._apps.values(), app])

    @property
    def is_known(self) -> bool:
        """Whether there is any app."""
        return bool(self._apps)

    @cached_property
    def has_bodies(self) -> bool:
        """Whether any agent, also one used as a tool, is custom: its code runs in workflows."""
        agents = (agent for app in self._apps.values() for agent in app.agents())
        return any(agent.node().any_custom() for agent in agents)

    @classmethod
    def of(cls, apps: Sequence[App]) -> Self:
        """Return the registry of a worker's apps.

        Raises:
            InvalidRequestError: Two apps have the same name.
        """
        names = [app.name for app in apps]
        if len(set(names)) < len(names):
            raise InvalidRequestError(f"Two of the apps {names} have the same name; rename one.")
        return cls(apps)

    def app(self, name: str) -> App:
        """Return the app with this name.

        Raises:
            UnknownAppError: This worker does not serve it.
        """
        if name not in self._apps:
            known = ", ".join(sorted(self._apps)) or "none"
            raise UnknownAppError(
                f"App {name!r} is not served here; the apps of this worker are: {known}. "
                "Start a worker for it, or send the message to its task queue."
            )
        return self._apps[name]

    def agent(self, app: str, name: str) -> BaseAgent:
        """Return an app's agent with this name; see `App.find_agent`."""
        return self.app(app).find_agent(name)


_by_name: dict[str, AppRegistry] = {}


def serve(name: str, registry: AppRegistry) -> None:
    """Make a worker's apps visible to workflows; required before a history is replayed."""
    _by_name[name] = registry


def serving(name: str) -> AppRegistry:
    """Return the registry of this name, or an empty one if this process has none."""
    return _by_name.get(name, AppRegistry([]))
