"""An app: agents, and the plugins round them."""

import pytest

from durable_adk.agents import LlmAgent
from durable_adk.apps import App
from durable_adk.errors import CallbackError
from durable_adk.models import ScriptedModel
from durable_adk.plugins import BasePlugin
from durable_adk.workflow import Workflow


class Closing(BasePlugin):
    """Notes that it was closed, and fails if it is named so."""

    def __init__(self, name: str, closed: list[str]) -> None:
        super().__init__(name)
        self.closed = closed

    async def close(self) -> None:
        self.closed.append(self.name)
        if self.name == "bad":
            raise OSError("gone")


def app(*plugins: BasePlugin) -> App:
    """An app of one agent."""
    agent = LlmAgent(name="a", model=ScriptedModel(replies=[]))
    return App(name="app", root_agent=agent, plugins=list(plugins))


def test_plugins_have_names_of_their_own() -> None:
    """PLG-1: a name that occurs twice is refused."""
    with pytest.raises(ValueError, match="'one'"):
        app(BasePlugin("one"), BasePlugin("one"))


def test_one_manager_has_the_plugins_in_their_order() -> None:
    """PLG-3: the order of the app is the order of the hooks."""
    plugins = [BasePlugin(name) for name in ("b", "a")]
    made = app(*plugins)
    assert list(made.plugin_manager.plugins) == plugins
    assert made.plugin_manager is made.plugin_manager
    assert app().plugin_manager.hooks() == frozenset()


async def test_closing_an_app_closes_its_plugins() -> None:
    """PLG-2: all of them, also when one cannot be."""
    closed: list[str] = []
    with pytest.raises(CallbackError, match="'bad' raised OSError"):
        await app(*(Closing(name, closed) for name in ("bad", "good"))).close()
    assert closed == ["bad", "good"]


def test_an_app_has_its_roots_name_by_default() -> None:
    """GR-8: its own name counts more, and must be one that apps may have."""
    root = Workflow(name="wf")
    assert App(root_agent=root).name == "wf"
    assert App(name="other", root_agent=root).name == "other"
    with pytest.raises(ValueError, match="The app name '_wf' must start with a letter"):
        App(root_agent=Workflow(name="_wf"))
    with pytest.raises(ValueError, match="The app name '' must"):
        App(name="", root_agent=root)
