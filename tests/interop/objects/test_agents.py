"""Agents of google-adk: custom ones, mixed trees, and what is refused."""

import time
from collections.abc import AsyncGenerator
from typing import Any

import pytest
from google.adk.agents import (
    BaseAgent,
    InvocationContext,
    LlmAgent,
    LoopAgent,
    RunConfig,
    SequentialAgent,
)
from google.adk.agents.callback_context import CallbackContext
from google.adk.agents.readonly_context import ReadonlyContext
from google.adk.agents.run_config import StreamingMode
from google.adk.apps import App
from google.adk.artifacts import InMemoryArtifactService
from google.adk.auth.credential_service.in_memory_credential_service import (
    InMemoryCredentialService,
)
from google.adk.events import Event, EventActions
from google.adk.models import BaseLlm, LlmRequest, LlmResponse
from google.adk.plugins.base_plugin import BasePlugin
from google.adk.runners import InMemoryRunner as AdkRunner
from google.adk.sessions import InMemorySessionService
from google.adk.tools import FunctionTool, ToolContext
from google.adk.tools.agent_tool import AgentTool
from google.adk.workflow import JoinNode
from google.genai import types
from pydantic import ValidationError

from durable_adk import agents, apps, models, plugins, sessions, tools
from durable_adk.errors import AgentDefinitionError, DeterminismError, InvalidRequestError
from durable_adk.google_objects import from_google_adk
from durable_adk.runners import InMemoryRunner, Runner
from tests.adk.scripted import ScriptedModel
from tests.interop.objects.running import call, heard, llm, texts

Events = AsyncGenerator[Event, None]


class Story(BaseAgent):
    """A custom agent as google-adk's documents show it; the second agent is in a field only."""

    first: LlmAgent
    second: LlmAgent

    async def _run_async_impl(self, ctx: InvocationContext) -> Events:
        assert isinstance(ctx, InvocationContext)
        assert ctx.agent is self
        async for event in self.first.run_async(ctx):
            assert isinstance(event, Event)
            yield event
        text = f"first said {ctx.session.state['out']}"
        content = types.Content(role="model", parts=[types.Part(text=text)])
        yield Event(
            author=self.name,
            invocation_id=ctx.invocation_id,
            content=content,
            actions=EventActions(state_delta={"mine": 1}),
        )
        assert ctx.session.state["mine"] == 1
        async for event in self.second.run_async(ctx):
            yield event


def story() -> Story:
    first = llm("first", "one", output_key="out")
    return Story(name="story", first=first, second=llm("second", "two"), sub_agents=[first])


TOLD = ["first: one", "story: first said one", "second: two"]


async def test_a_custom_agents_body_drives_durable_agents() -> None:
    """Its context is google-adk's, and what it yields is committed before it continues."""
    events = await heard(story())
    assert texts(events) == TOLD
    assert events[1].actions.state_delta == {"mine": 1}


async def test_the_same_objects_run_by_google_adks_runner_afterwards() -> None:
    """Which way an agent goes depends on who runs it."""
    agent = story()
    assert texts(await heard(agent)) == TOLD
    async with AdkRunner(agent, app_name="adk") as runner:
        events = await runner.run_debug("hello", quiet=True)
    assert [event.content.parts[0].text for event in events] == ["one", "first said one", "two"]


class Framed(LlmAgent):
    """An LlmAgent that says something before and after its model."""

    async def _run_async_impl(self, ctx: InvocationContext) -> Events:
        yield Event(author=self.name, message="before")
        async for event in super()._run_async_impl(ctx):
            yield event
        yield Event(author=self.name, message="after")


async def test_a_body_calls_that_of_its_base_class() -> None:
    """`super()._run_async_impl` runs the model durably."""
    framed = Framed(name="a", model=ScriptedModel(replies=lambda _: "said"))
    assert texts(await heard(framed)) == ["a: before", "a: said", "a: after"]


class Running(BaseAgent):
    """Runs an agent that it makes of its own one."""

    make: Any

    async def _run_async_impl(self, ctx: InvocationContext) -> Events:
        async for event in self.make(self.sub_agents[0]).run_async(ctx):
            yield event


def look(city: str) -> str:
    return city


def writer(**fields: Any) -> LlmAgent:
    given = {"instruction": "Write.", "tools": [FunctionTool(look)], **fields}
    return llm("writer", "hi", **given)


def nested(**fields: Any) -> LoopAgent:
    return LoopAgent(name="loop", max_iterations=1, sub_agents=[writer(**fields)])


@pytest.mark.parametrize(
    ("own", "make"),
    [
        (writer, lambda own: own.clone()),
        (writer, lambda _: writer()),
        (nested, lambda own: own.clone()),
        (nested, lambda _: nested()),
    ],
    ids=["clone", "anew", "nested-clone", "nested-anew"],
)
async def test_a_copy_runs_as_the_agent_that_it_is_of(own: Any, make: Any) -> None:
    """A body may clone an agent of its tree, or build one like it."""
    running = Running(name="c", sub_agents=[own()], make=make)
    assert texts(await heard(running)) == ["writer: hi"]
    above = agents.SequentialAgent(name="above", sub_agents=[running])
    assert texts(await heard(above)) == ["writer: hi"]


def with_a_changed_tool(own: LlmAgent) -> LlmAgent:
    own.tools.append(look)
    return own


def changed_in_place(own: LlmAgent) -> LlmAgent:
    own.instruction = "Sing."
    return own


@pytest.mark.parametrize(
    ("own", "make", "what"),
    [
        (writer, lambda own: own.clone(update={"instruction": "Sing."}), "instruction"),
        (writer, lambda _: writer(instruction="Sing.", output_key="x"), "instruction, output_key"),
        (writer, lambda _: SequentialAgent(name="writer"), "class"),
        (writer, with_a_changed_tool, "tools"),
        (writer, changed_in_place, "instruction"),
        (nested, lambda _: nested(instruction="Sing."), "sub_agents"),
    ],
    ids=["clone", "anew", "class", "tool", "in-place", "nested"],
)
async def test_an_agent_that_a_body_changes_is_refused(own: Any, make: Any, what: str) -> None:
    """By name: the loaded one would run, as another worker that continues would run it."""
    agent = own()
    with pytest.raises(AgentDefinitionError, match=f"{agent.name}' with another {what} than"):
        await heard(Running(name="c", sub_agents=[agent], make=make))


class Timed(BaseAgent):
    """Reads a clock, which would be another at each replay."""

    async def _run_async_impl(self, ctx: InvocationContext) -> Events:
        yield Event(author=self.name, message=str(time.time()))


async def test_a_body_is_guarded() -> None:
    """What is not safe to replay is refused at the first run, with the place."""
    with pytest.raises(DeterminismError, match=r"time\.time.*test_agents\.py"):
        await heard(Timed(name="timed"))


class Watching(BasePlugin):
    """A plugin of google-adk that sees google-adk's objects only."""

    def __init__(self) -> None:
        super().__init__("watching")
        self.seen: list[str] = []

    async def before_agent_callback(self, *, agent: Any, callback_context: Any) -> None:
        assert isinstance(agent, BaseAgent)
        assert isinstance(callback_context, CallbackContext)
        self.seen.append(agent.name)

    async def before_model_callback(self, *, callback_context: Any, llm_request: Any) -> Any:
        assert isinstance(llm_request, LlmRequest)
        if callback_context.agent_name == "muted":
            return LlmResponse(content=types.ModelContent("from the plugin"))
        return None

    async def on_event_callback(self, *, invocation_context: Any, event: Any) -> Any:
        assert isinstance(invocation_context, InvocationContext)
        assert isinstance(event, Event)
        event.custom_metadata = {"watched": True}


async def test_a_plugin_sees_and_answers_with_objects_of_google_adk() -> None:
    """Its answer replaces the model's; what it changes in an event is stored."""
    watching = Watching()
    root = SequentialAgent(name="root", sub_agents=[llm("muted", "never"), llm("b", "hi")])
    events = await heard(App(name="app", root_agent=root, plugins=[watching]))
    assert texts(events) == ["muted: from the plugin", "b: hi"]
    assert watching.seen == ["root", "muted", "b"]
    assert all(event.custom_metadata == {"watched": True} for event in events)


class Adding(tools.BaseToolset):
    """A toolset of ours."""

    async def get_tools(self, readonly_context: Any = None) -> list[tools.BaseTool]:
        """See base class."""

        def add_two(x: int) -> int:
            return x + 2

        return [tools.FunctionTool(add_two)]


async def test_our_tools_in_an_agent_of_google_adk() -> None:
    """They run with our context; google-adk takes them, although it checks classes."""

    def add_one(x: int, tool_context: tools.ToolContext) -> int:
        assert isinstance(tool_context, tools.ToolContext)
        return x + 1

    replies = [call("add_one", x=1), call("add_two", x=1), "added"]
    theirs = llm("theirs", *replies, tools=[tools.FunctionTool(add_one), Adding()])
    events = await heard(theirs)
    results = [one.response for event in events for one in event.get_function_responses()]
    assert results == [{"result": 2}, {"result": 3}]
    assert texts(events) == ["theirs: added"]


def test_our_tools_have_their_names_in_an_agent_of_google_adk() -> None:
    """Its own runner declares them as they are called, so that a call of one says who runs it."""
    tool = tools.FunctionTool(print, name="p")
    assert FunctionTool(func=tool).name == "p"
    with pytest.raises(AgentDefinitionError, match="give it to an agent as it is"):
        from_google_adk(llm("a", tools=[FunctionTool(func=tool)]))


async def test_our_agent_in_google_adk_s_agent_tool() -> None:
    """google-adk checks no class there, so it runs."""
    ours = agents.LlmAgent(name="ours", model=models.ScriptedModel(replies=["from ours"]))
    events = await heard(llm("theirs", call("ours", request="?"), "done", tools=[AgentTool(ours)]))
    results = [one.response for event in events for one in event.get_function_responses()]
    assert results == [{"result": "from ours"}]


@pytest.mark.parametrize("ours", [tools.FunctionTool(print, name="p"), Adding()])
def test_google_adk_s_own_runner_does_not_run_our_tools(ours: Any) -> None:
    """The error names the runner that does."""
    with pytest.raises(AgentDefinitionError, match="google-adk's own Runner cannot"):
        ours(x=1)


async def test_objects_of_google_adk_below_our_agents() -> None:
    """Sub-agents, models, and functions that are annotated with google-adk's classes."""

    def look(x: int, tool_context: ToolContext) -> str:
        assert isinstance(tool_context, ToolContext)
        tool_context.state["looked"] = x
        return "seen"

    def before(callback_context: CallbackContext) -> None:
        assert isinstance(callback_context, CallbackContext)
        callback_context.state["before"] = True

    def instruction(context: ReadonlyContext) -> str:
        assert isinstance(context, ReadonlyContext)
        return "Look."

    def after(callback_context: Any, llm_response: Any) -> LlmResponse | None:
        text = llm_response.content.parts[0].text
        return LlmResponse(content=types.ModelContent(text.upper())) if text else None

    ours = agents.LlmAgent(
        name="ours",
        model=ScriptedModel(replies=[call("look", x=2), "well"]),
        tools=[look],
        instruction=instruction,
        before_agent_callback=before,
        after_model_callback=after,
    )
    root = agents.SequentialAgent(name="root", sub_agents=[ours, llm("theirs", "too")])
    events = await heard(root)
    assert texts(events) == ["ours: WELL", "theirs: too"]
    assert events[0].actions.state_delta == {"before": True}
    assert events[2].actions.state_delta == {"looked": 2}


@pytest.mark.parametrize(
    ("field", "kind", "outer"),
    [
        ("sub_agents", "BaseAgent", LlmAgent),
        ("model", "BaseLlm", LlmAgent),
        ("root_agent", "BaseNode", App),
        ("plugins", "BasePlugin", App),
    ],
)
def test_google_adk_refuses_objects_of_ours_by_itself(field: str, kind: str, outer: Any) -> None:
    """It does so before code of ours runs, in the words that docs/use/google-adk.md explains."""
    ours = agents.LlmAgent(name="b")
    inner: dict[str, Any] = {
        "sub_agents": [ours],
        "model": models.ScriptedModel(replies=["x"]),
        "root_agent": ours,
        "plugins": [plugins.LoggingPlugin()],
    }
    known = {"root_agent": llm("a")} if outer is App else {}
    with pytest.raises(ValidationError, match=f"instance of {kind}.*input_type="):
        outer(name="a", **{**known, field: inner[field]})


async def test_a_run_config_of_google_adk_is_taken() -> None:
    """Its options mean the same; one with an effect that is not here is refused by name."""
    config = RunConfig(streaming_mode=StreamingMode.SSE, max_llm_calls=3, labels={"a": "b"})
    async with InMemoryRunner(llm("a", "two words")) as runner:
        events = await runner.run_debug("hello", quiet=True, run_config=config)
    assert [bool(event.partial) for event in events] == [True, True, False]
    with pytest.raises(AgentDefinitionError, match="support_cfc"):
        from_google_adk(RunConfig(streaming_mode=StreamingMode.SSE, support_cfc=True))


def test_options_of_live_runs_are_taken_without_effect() -> None:
    """As in google-adk, what is for `run_live` does not keep `run_async` from running."""
    config = RunConfig(save_live_blob=True, max_llm_calls=3, response_modalities=["AUDIO"])
    assert from_google_adk(config) == from_google_adk(RunConfig(max_llm_calls=3))


REFUSED = [
    (lambda: llm("a", tools=[JoinNode(name="j", input_schema=types.Content)]), "a Workflow with"),
    (lambda: llm("a", mode="single_turn"), "mode='single_turn'"),
    (lambda: LoopAgent(name="l", sub_agents=[llm("a", mode="single_turn")]), "LlmAgent, or a node"),
    (lambda: llm("a", timeout=3), "timeout"),
]


@pytest.mark.parametrize(
    ("make", "says"), REFUSED, ids=["node_tool", "root", "single_turn", "timeout"]
)
def test_what_cannot_be_durable_is_refused_when_it_is_loaded(make: Any, says: str) -> None:
    """By name, with the way out."""
    with pytest.raises(ValueError, match=says):
        apps.App(name="app", root_agent=make())


async def test_an_event_of_google_adk_is_appended() -> None:
    """SSN-10, SSN-12: with its id, its time and its changes; once, however often it is passed."""
    store = sessions.InMemorySessionService()
    session = await store.create_session(app_name="app", user_id="u")
    content = types.Content(role="user", parts=[types.Part(text="earlier")])
    event = Event(author="user", content=content, actions=EventActions(state_delta={"seen": 1}))
    for _ in range(2):
        stored: Any = await store.append_event(session, event)  # type: ignore[arg-type] # theirs
        assert (stored.id, stored.timestamp, stored.text) == (event.id, event.timestamp, "earlier")
    kept = await store.get_session(app_name="app", user_id="u", session_id=session.id)
    assert kept is not None
    assert kept.state == session.state == {"seen": 1}
    assert [one.id for one in kept.events] == [one.id for one in session.events] == [event.id]


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("session_service", InMemorySessionService),
        ("artifact_service", InMemoryArtifactService),
        ("credential_service", InMemoryCredentialService),
    ],
)
def test_a_store_of_google_adk_is_refused_when_it_is_given(name: str, kind: Any) -> None:
    """The error names the argument, the class and what to give instead."""
    given: Any = {"session_service": sessions.InMemorySessionService(), name: kind()}
    with pytest.raises(InvalidRequestError, match=rf"{name}: {kind.__name__} is google"):
        Runner(app=from_google_adk(App(name="app", root_agent=llm("a"))), **given)


class Writing(BaseLlm):
    """A model that shows a call before its arguments are whole."""

    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        if len(llm_request.contents) > 1:
            yield LlmResponse(content=types.Content(role="model", parts=[types.Part(text="done")]))
            return
        for partial, args in ((True, {}), (True, {"word": "h"}), (False, {"word": "hi"})):
            one = types.FunctionCall(name="echo", args=args, id="call-1")
            content = types.Content(role="model", parts=[types.Part(function_call=one)])
            yield LlmResponse(content=content, partial=partial)


async def test_a_half_call_is_shown_and_not_made() -> None:
    """FLW-70: a chunk has it as the model wrote it; the whole response is what runs."""

    def echo(word: str) -> str:
        """Echo."""
        return word

    agent = LlmAgent(name="a", model=Writing(model="writing"), tools=[echo])
    async with InMemoryRunner(agent) as runner:
        streaming: Any = RunConfig(streaming_mode=StreamingMode.SSE)
        events = await runner.run_debug("hi", quiet=True, run_config=streaming)
    shown = [(event.partial, one) for event in events for one in event.get_function_calls()]
    assert [bool(partial) for partial, _ in shown] == [True, True, False]
    assert [one.args for _, one in shown] == [{}, {"word": "h"}, {"word": "hi"}]
    assert {one.id for _, one in shown} == {"call-1"}
    assert sum(bool(event.get_function_responses()) for event in events) == 1
