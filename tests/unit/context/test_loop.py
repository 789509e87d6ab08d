"""Contexts that a user's own unit test makes, as it makes ADK's."""

from collections.abc import AsyncGenerator
from typing import Any
from unittest.mock import AsyncMock, MagicMock, Mock

import pytest
from google.genai import types

from durable_adk.agents import BaseAgent, Context, InvocationContext, LlmAgent, RunConfig
from durable_adk.agents.callback_context import CallbackContext
from durable_adk.agents.readonly_context import ReadonlyContext
from durable_adk.artifacts import InMemoryArtifactService
from durable_adk.auth import AuthConfig
from durable_adk.auth.auth_schemes import APIKey
from durable_adk.errors import InvalidRequestError
from durable_adk.events import Event, EventActions
from durable_adk.memory import InMemoryMemoryService
from durable_adk.models import ScriptedModel
from durable_adk.plugins import BasePlugin, PluginManager
from durable_adk.sessions import InMemorySessionService
from durable_adk.tools import AgentTool, FunctionTool, ToolContext


async def context(agent: BaseAgent | None = None, **fields: Any) -> InvocationContext:
    """What ADK's pages tell users to write in a test."""
    sessions = InMemorySessionService()
    session = await sessions.create_session(app_name="app", user_id="u", state={"n": 1})
    return InvocationContext(
        invocation_id="i",
        agent=agent or LlmAgent(name="a", model=ScriptedModel(replies=["x"])),
        session=session,
        session_service=sessions,
        artifact_service=InMemoryArtifactService(),
        memory_service=InMemoryMemoryService(),
        **fields,
    )


async def test_a_tool_is_called_with_a_context_of_a_test() -> None:
    """State, artifacts, memory and confirmation are those of the services that were passed."""
    told = await context()

    async def buy(item: str, tool_context: ToolContext) -> Any:
        tool_context.state["bought"] = item
        await tool_context.save_artifact("bill", types.Part(text="1"))
        tool_context.request_confirmation(hint="sure?")
        return await tool_context.list_artifacts()

    made = ToolContext(told, function_call_id="c")
    assert await FunctionTool(buy).run_async(args={"item": "tea"}, tool_context=made) == ["bill"]
    assert made.actions.state_delta == {"bought": "tea"}
    assert made.actions.artifact_delta == {"bill": 0}
    assert made.actions.requested_tool_confirmations["c"].hint == "sure?"
    assert told.session.state == {"n": 1, "bought": "tea"}
    assert (await made.search_memory("tea")).memories == []


async def test_actions_show_what_was_changed_in_place() -> None:
    """As in ADK: a list that was read from the state and extended is a change."""
    told = await context()
    told.session.state["cart"] = []
    made = ToolContext(told)
    made.state["cart"].append("tea")
    assert made.actions.state_delta == {"cart": ["tea"]}
    made.state["cart"].append(object())
    assert made.actions.state_delta == {"cart": ["tea"]}


async def test_contexts_say_what_the_invocation_is() -> None:
    """A callback's context is a tool's without a call; the invocation can be read from both."""
    content = types.Content(role="user", parts=[types.Part(text="hi")])
    told = await context(user_content=content, branch="b", run_config=RunConfig(max_llm_calls=3))
    actions = EventActions(escalate=True)
    made = CallbackContext(told, event_actions=actions)
    assert CallbackContext is ToolContext is Context
    assert made.actions is actions
    assert (made.agent_name, made.invocation_id, made.user_id, made.branch) == ("a", "i", "u", "b")
    assert (made.user_content, made.run_config.max_llm_calls) == (content, 3)
    assert made.function_call_id is None
    assert made._invocation_context is told is made.get_invocation_context()
    assert ReadonlyContext(told).state == {"n": 1}
    assert told.model_copy(update={"branch": "c"}).branch == "c"


async def test_what_a_callback_cannot_ask_for_is_refused() -> None:
    """There is no call that could run again."""
    made = CallbackContext(await context())
    with pytest.raises(ValueError, match="no call"):
        made.request_confirmation()
    scheme = APIKey.model_validate({"type": "apiKey", "in": "header", "name": "X"})
    with pytest.raises(InvalidRequestError, match="no call"):
        made.request_credential(AuthConfig(auth_scheme=scheme))
    assert made.get_auth_response(AuthConfig(auth_scheme=scheme)) is None


class Body(BaseAgent):
    """Calls a step, and the agent below it."""

    async def _run_async_impl(self, ctx: InvocationContext) -> AsyncGenerator[Event, None]:
        found = await ctx.step(fetch, "x")
        yield Event(author=self.name, state={"found": found})
        async for event in self.sub_agents[0].run_async(ctx):
            yield event


def fetch(name: str) -> str:
    """Stand for some I/O."""
    return f"{name}!"


async def test_an_agent_runs_with_a_context_of_a_test() -> None:
    """Its callbacks and plugins are called, and it continues on what the session holds."""
    model = ScriptedModel(replies=["hello"])
    seen: list[str] = []

    def before(callback_context: CallbackContext) -> None:
        seen.append(callback_context.agent_name)

    class Watch(BasePlugin):
        async def before_agent_callback(self, **given: Any) -> None:
            seen.append("plugin")

    agent = LlmAgent(name="a", model=model, before_agent_callback=before, output_key="said")
    told = await context(agent, plugin_manager=PluginManager([Watch(name="w")]))
    message = types.Content(role="user", parts=[types.Part(text="hi")])
    await told.session_service.append_event(told.session, Event(author="user", content=message))
    events = [event async for event in agent.run_async(told)]
    assert [(event.text, event.invocation_id) for event in events] == [("hello", "i")]
    assert seen == ["plugin", "a"]
    assert model.requests[0].contents == [message]
    assert told.session.state["said"] == "hello"
    assert len(told.session.events) == 1


async def test_an_agent_runs_on_the_branch_of_a_context() -> None:
    """TRAP-33: it sees no sibling's events, and its own are on the branch."""
    model = ScriptedModel(replies=lambda _: "hello")
    agent = LlmAgent(name="a", model=model)
    told = await context(agent, branch="p.a")
    for branch in (None, "p.a", "p.b"):
        content = types.Content(role="user", parts=[types.Part(text=str(branch))])
        event = Event(author="user", content=content, branch=branch)
        await told.session_service.append_event(told.session, event)
    assert [event.branch async for event in agent.run_async(told)] == ["p.a"]
    parts = [part.text for one in model.requests[0].contents for part in one.parts or []]
    assert parts == ["None", "p.a"]


async def test_a_body_runs_with_a_context_of_a_test() -> None:
    """Steps are called in place, agents below it as part of the body."""
    below = LlmAgent(name="below", model=ScriptedModel(replies=["done"]))
    told = await context(Body(name="body", sub_agents=[below]))
    direct = [event async for event in told.agent._run_async_impl(told)]
    assert [event.author for event in direct] == ["body", "below"]
    whole = [event async for event in told.agent.run_async(told)]
    assert [event.actions.state_delta.get("found") for event in whole] == ["x!", None]


async def test_an_agent_tool_runs_with_a_context_of_a_test() -> None:
    """TOL-21: the agent gets the question and the state, and returns its text and changes."""
    model = ScriptedModel(replies=["forty-two"])
    expert = LlmAgent(name="expert", model=model, instruction="{n}", output_key="said")
    told = await context()
    made = ToolContext(told, function_call_id="c")
    result = await AgentTool(expert).run_async(args={"request": "what?"}, tool_context=made)
    assert result == "forty-two"
    assert made.actions.state_delta == {"said": "forty-two"}
    (request,) = model.requests
    assert [part.text for one in request.contents for part in one.parts or []] == ["what?"]
    assert "1" in str(request.config.system_instruction)
    assert told.session.events == []


async def test_a_mock_stands_for_an_invocation() -> None:
    """What a test sets on it is what a context shows; what it lacks is not asked for."""
    invocation = MagicMock(app_name="shop", user_id="u", session=MagicMock(id="s", state={}))
    invocation.agent.name = "a"
    invocation.artifact_service.list_artifact_keys = AsyncMock(return_value=["bill"])
    made = ToolContext(invocation)
    assert (made.agent_name, made.app_name, made.user_id) == ("a", "shop", "u")
    assert await made.list_artifacts() == ["bill"]
    owner = {"app_name": "shop", "user_id": "u", "session_id": "s"}
    invocation.artifact_service.list_artifact_keys.assert_called_once_with(**owner)
    bare = Mock(spec=InvocationContext, session=MagicMock(state={"n": 1}))
    assert CallbackContext(bare).state["n"] == 1
    nameless = InvocationContext(invocation_id="i", session=bare.session, agent=Mock(spec=[]))
    assert nameless.agent_name == "unknown"
