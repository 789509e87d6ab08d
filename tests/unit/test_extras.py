"""The package without its extras."""

import re
import sys
import tomllib
from collections.abc import Callable, Iterator
from types import ModuleType

import pytest

from durable_adk import google_objects
from durable_adk.agents import LlmAgent
from durable_adk.agents.callback_context import CallbackContext
from durable_adk.compatibility import google_version
from durable_adk.errors import AgentDefinitionError
from durable_adk.models import LLMRegistry, ScriptedModel
from durable_adk.runners import InMemoryRunner
from tests.support.required import ROOT


class FromGoogleAdk:
    """Stands for an object of an older google-adk."""

    __module__ = "google.adk.agents.llm_agent"


@pytest.fixture(params=["1.20.0", "2.12.3", "3.0.0rc1"])
def unfit(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A version of google-adk whose objects do not run here, as if it were loaded."""
    monkeypatch.setitem(sys.modules, "google.adk", ModuleType("google.adk"))
    monkeypatch.setattr(google_version, "find_spec", lambda _: True)
    monkeypatch.setattr(google_version, "version", lambda _: request.param)
    google_version.has_google_adk.cache_clear()
    yield request.param
    google_version.has_google_adk.cache_clear()


@pytest.mark.parametrize(
    "take",
    [
        lambda: google_objects.from_google_adk(FromGoogleAdk()),
        lambda: google_objects.agent_of_config("root_agent.yaml"),
    ],
    ids=["object", "config"],
)
def test_an_unfit_google_adk_is_named(unfit: str, take: Callable[[], object]) -> None:
    """With its version, those whose objects run, and the command that installs one."""
    says = rf"google-adk {re.escape(unfit)} .* 2\.13 or newer, below 3, .* --upgrade"
    with pytest.raises(AgentDefinitionError, match=says):
        take()


async def test_our_objects_run_beside_an_unfit_google_adk(unfit: str) -> None:
    """Callbacks, tools and names of models are taken as if it were not there."""
    called: list[str] = []

    def note(callback_context: CallbackContext) -> None:
        called.append(callback_context.agent_name)

    agent = LlmAgent(
        name="a",
        model=ScriptedModel(replies=["hi"]),
        instruction=lambda _: unfit,
        before_agent_callback=note,
    )
    async with InMemoryRunner(agent) as runner:
        events = await runner.run_debug("hello", quiet=True)
    assert [event.text for event in events] == ["hi"]
    assert called == ["a"]
    with pytest.raises(AgentDefinitionError, match="unknown-model"):
        LLMRegistry.new_llm("unknown-model")


def test_the_versions_that_fit_are_those_that_the_extra_brings() -> None:
    """The number in the code and the one in the package's metadata are the same."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    first, second = google_version.FIRST
    wanted = f"google-adk>={first}.{second},<{first + 1}"
    assert project["optional-dependencies"]["adk"] == [wanted]
