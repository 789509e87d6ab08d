"""What ADK's runner takes."""

import pytest

from durable_adk.agents import LlmAgent
from durable_adk.apps import App, ResumabilityConfig
from durable_adk.errors import InvalidRequestError
from durable_adk.models import ScriptedModel
from durable_adk.plugins import LoggingPlugin
from durable_adk.runners import InMemoryRunner, Runner
from durable_adk.sessions import InMemorySessionService
from tests.support.scripts import gist, send, stored


def agent() -> LlmAgent:
    """An agent that answers."""
    return LlmAgent(name="a", model=ScriptedModel(replies=["one", "two"]))


async def test_plugins_are_taken_with_a_warning() -> None:
    """As in 2.13, by both runners."""
    plugin = LoggingPlugin()
    with pytest.warns(DeprecationWarning, match="App"):
        runner = InMemoryRunner(agent(), plugins=[plugin])
    assert runner.plugin_manager.plugins == (plugin,)
    sessions = InMemorySessionService()
    with pytest.warns(DeprecationWarning, match="App"):
        other = Runner(app_name="x", agent=agent(), plugins=[plugin], session_service=sessions)
    assert other.app.plugins == [plugin]


async def test_an_app_can_have_another_name() -> None:
    """Sessions are looked up under it; the app's own configuration stays."""
    config = ResumabilityConfig(is_resumable=True)
    app = App(name="own", root_agent=agent(), resumability_config=config)
    async with InMemoryRunner(app=app, app_name="other") as runner:
        assert (runner.app_name, app.name) == ("other", "own")
        assert runner.resumability_config is config
        assert runner.context_cache_config is None
        await send(runner)
        listed = await runner.session_service.list_sessions(app_name="other")
        assert [session.app_name for session in listed.sessions] == ["other"]


@pytest.mark.parametrize("given", ["nothing", "both", "nameless", "plugins beside an app"])
def test_contradictions_are_refused(given: str) -> None:
    """What cannot be meant raises ValueError, as in ADK."""
    app = App(name="own", root_agent=agent())
    arguments = {
        "nothing": {},
        "both": {"app": app, "agent": agent(), "app_name": "x"},
        "nameless": {"agent": agent()},
        "plugins beside an app": {"app": app, "plugins": []},
    }[given]
    with pytest.raises(InvalidRequestError, match="either app"):
        Runner(session_service=InMemorySessionService(), **arguments)


async def test_without_a_message_the_agents_continue() -> None:
    """They see what the session holds, and nothing is said in the user's name."""
    root = agent()
    async with InMemoryRunner(root) as runner:
        await send(runner, "hi")
        where = {"user_id": "u", "session_id": "s"}
        events = [event async for event in runner.run_async(**where, state_delta={"k": 1})]
        assert [gist(event) for event in events] == ["a text two"]
        kept = await stored(runner)
    assert [event.text for event in kept] == ["hi", "one", "", "two"]
    assert kept[2].actions.state_delta == {"k": 1}
    said = [content.parts[0].text for content in root.model.requests[1].contents]
    assert said == ["hi", "one"]
