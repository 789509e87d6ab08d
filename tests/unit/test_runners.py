"""What ADK's runner takes."""

import asyncio
from typing import Any

import pytest

from durable_adk.agents import LlmAgent
from durable_adk.agents.run_config import RunConfig, StreamingMode
from durable_adk.apps import App, ResumabilityConfig
from durable_adk.errors import InvalidRequestError, InvocationNotFoundError
from durable_adk.models import ScriptedModel
from durable_adk.plugins import LoggingPlugin
from durable_adk.runners import InMemoryRunner, Runner
from durable_adk.sessions import InMemorySessionService
from durable_adk.workflow import FunctionNode, Workflow
from tests.support.scripts import gist, send, stored
from tests.support.waiting import PATIENCE, forever


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


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ("nothing", "One of app, agent, or node must be provided"),
        ("both", "Only one of app, agent, or node may be provided"),
        ("nameless", "app_name is required when agent is provided"),
        ("plugins beside an app", "When app is provided, plugins should"),
        ("agent and node", "Only one of app, agent, or node may be provided"),
        ("a function", "node is a function; pass an agent, a Workflow or another node"),
        ("a text", "agent is a str; pass an agent, a Workflow or another node"),
    ],
)
def test_contradictions_are_refused(given: str, words: str) -> None:
    """What cannot be meant raises ValueError, in ADK's words."""
    app = App(name="own", root_agent=agent())
    arguments = {
        "nothing": {},
        "both": {"app": app, "agent": agent(), "app_name": "x"},
        "nameless": {"agent": agent()},
        "plugins beside an app": {"app": app, "plugins": []},
        "agent and node": {"agent": agent(), "node": agent(), "app_name": "x"},
        "a function": {"node": agent},
        "a text": {"agent": "x", "app_name": "x"},
    }[given]
    with pytest.raises(InvalidRequestError, match=words):
        Runner(session_service=InMemorySessionService(), **arguments)


async def test_plugins_have_the_time_to_close_that_the_runner_gives() -> None:
    """The app's own manager gives 5 s; a runner's may give another time."""

    class Slow(LoggingPlugin):
        async def close(self) -> None:
            await forever()

    app = App(name="own", root_agent=agent(), plugins=[Slow()])
    runner = InMemoryRunner(app=app, plugin_close_timeout=0.01)
    with pytest.raises(RuntimeError, match=r"did not finish in 0\.01 s"):
        await asyncio.wait_for(runner.close(), PATIENCE)


async def test_a_missing_session_is_created_to_rewind_it() -> None:
    """As for a message, and its invocation is missing all the same, as in ADK."""
    sessions = InMemorySessionService()
    runner = Runner(app_name="x", agent=agent(), session_service=sessions, auto_create_session=True)
    where = {"user_id": "u", "session_id": "s"}
    with pytest.raises(InvocationNotFoundError, match="Invocation ID not found: gone"):
        await runner.rewind_async(**where, rewind_before_invocation_id="gone")
    assert await sessions.get_session(app_name="x", **where)


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
    assert kept[2].content is None  # clients loop over the parts of content
    assert kept[2].actions.state_delta == {"k": 1}
    said = [content.parts[0].text for content in root.model.requests[1].contents]
    assert said == ["hi", "one"]


def test_the_app_is_the_object_that_was_given() -> None:
    """As in ADK, also if it runs under another name."""
    app = App(name="app", root_agent=agent())
    assert InMemoryRunner(app=app).app is app
    assert InMemoryRunner(app=app, app_name="app").app is app
    other = InMemoryRunner(app=app, app_name="other")
    assert (other.app, other.app_name, app.name) == (app, "other", "app")


@pytest.mark.parametrize(
    ("update", "words"),
    [
        ({"parent_agent": None}, "Cannot update `parent_agent`"),
        ({"nam": "b"}, "Cannot update nonexistent fields in LlmAgent"),
    ],
)
def test_clone_updates_only_what_it_may(update: dict[str, object], words: str) -> None:
    """A parent and what is no field are refused in ADK's words."""
    with pytest.raises(ValueError, match=words):
        agent().clone(update)


@pytest.mark.parametrize(
    ("given", "field"),
    [
        ({"state_delta": {"seal": "broken"}}, "state_delta"),
        ({"run_config": RunConfig(custom_metadata={"a": 1})}, "run_config.custom_metadata"),
        ({"run_config": RunConfig(max_llm_calls=3)}, "run_config.max_llm_calls"),
    ],
)
async def test_a_request_that_only_follows_is_refused_what_it_would_drop(
    given: dict[str, Any], field: str
) -> None:
    """An invocation's id without a message writes and changes nothing; chunks may be asked for."""
    async with InMemoryRunner(agent()) as runner:
        first = await send(runner, invocation_id="i")
        ids = {"user_id": "u", "session_id": "s", "invocation_id": "i"}
        with pytest.raises(InvalidRequestError, match=field):
            await anext(runner.run_async(**ids, **given))
        sse = RunConfig(streaming_mode=StreamingMode.SSE)
        again = [event async for event in runner.run_async(**ids, run_config=sse)]
    assert [event.id for event in again] == [event.id for event in first]


def shout(node_input: str) -> str:
    """Return the input in capitals."""
    return node_input.upper()


GRAPH = Workflow(name="wf", edges=[("START", shout)])


@pytest.mark.parametrize(
    ("fields", "name"),
    [
        ({"node": GRAPH}, "wf"),
        ({"node": GRAPH, "app_name": "x"}, "x"),
        ({"node": FunctionNode(func=shout)}, "shout"),
        ({"agent": GRAPH}, "InMemoryRunner"),
        ({"agent": GRAPH, "app_name": "x"}, "x"),
        ({"app": App(root_agent=GRAPH)}, "wf"),
    ],
)
async def test_a_runner_takes_any_node(fields: dict[str, Any], name: str) -> None:
    """GR-8: the app has the node's name by default."""
    async with InMemoryRunner(**fields) as runner:
        assert runner.app_name == name
        (event,) = await send(runner)
        assert event.output == "HELLO"
        root = fields.get("node") or fields.get("agent") or GRAPH
        assert runner.agent is root


async def test_run_debug_prints_outputs(capsys: pytest.CaptureFixture[str]) -> None:
    """A graph without an agent has nothing else to show."""
    async with InMemoryRunner(node=GRAPH) as runner:
        await runner.run_debug("hi")
    assert capsys.readouterr().out.splitlines() == ["user > hi", 'wf > "HI"']
