"""What an agent in a graph gives the next node, where more than its final text decides it."""

from typing import Any

import pytest
from google.genai import types

from durable_adk.agents import LlmAgent
from durable_adk.apps import ResumabilityConfig
from durable_adk.graph.retry_config import NodeRetryConfig
from durable_adk.graph.workflow import Workflow
from durable_adk.models import ScriptedModel
from durable_adk.models.llm_request import LlmRequest
from durable_adk.models.llm_response import LlmResponse
from durable_adk.plugins import BasePlugin
from durable_adk.tools import LongRunningFunctionTool
from tests.conftest import MakeRunner
from tests.integration.test_graphs import Row, answers, ends, fail, fails, log, reply, said
from tests.support.scripts import USER, call

pytestmark = pytest.mark.replayed


def graph(**options: Any) -> tuple[Workflow, list[Any]]:
    """An agent, and a function whose inputs are returned."""
    given: list[Any] = []

    def after(node_input: Any) -> str:
        given.append(node_input)
        return "end"

    model = options.pop("model", None) or ScriptedModel(replies=["text"])
    agent = LlmAgent(name="a", model=model, **options)
    return Workflow(name="wf", edges=[("START", agent, after)]), given


def speaks(value: Any, *, output: bool) -> Row:
    """The row of what the agent gives, as the node's output or not yet."""
    return Row("a", "wf@1/a@1", None, value, ["wf@1/a@1"] if output else None)


def replaces(callback_context: Any) -> types.Content:
    """Say something else."""
    return types.Content(role="model", parts=[types.Part(text="replaced")])


def keeps(callback_context: Any) -> None:
    """Say nothing."""


def breaks(callback_context: Any) -> None:
    """Fail."""
    raise ValueError


async def test_a_model_that_ends_with_an_error_fails_the_attempt(make_runner: MakeRunner) -> None:
    """GR-180, B-21: the event with the code tells it, once, and the next attempt may succeed."""
    replies = iter([LlmResponse(error_code="MAX_TOKENS"), "text", LlmResponse(error_code="SAFETY")])
    model = ScriptedModel(replies=lambda _: next(replies))
    retry = NodeRetryConfig(max_attempts=2, exceptions=["MAX_TOKENS"], initial_delay=0, jitter=0)
    root, given = graph(model=model, retry_config=retry)
    runner = await make_runner(root)
    assert await said(runner) == [
        fails("a@1", "MAX_TOKENS", author="a"),
        speaks("text", output=True),
        ends("after@1", "end"),
    ]
    rows, error = await fail(runner)
    assert rows == [fails("a@1", "SAFETY", author="a")]
    assert "SAFETY" in str(error)
    assert given == ["text"]


async def test_content_before_the_agent_is_its_output(make_runner: MakeRunner) -> None:
    """GR-180: the model is not called."""
    root, given = graph(model=ScriptedModel(), before_agent_callback=replaces)
    rows = [speaks("replaced", output=True), ends("after@1", "end")]
    assert await said(await make_runner(root)) == rows
    assert given == ["replaced"]


async def test_a_chat_agent_gives_no_output(make_runner: MakeRunner) -> None:
    """GR-63, GR-178, B-45: it sees the conversation, and what is behind it never runs."""
    prompts: list[list[str]] = []

    def replies(request: LlmRequest) -> str:
        prompts.append([part.text or "" for one in request.contents for part in one.parts or ()])
        return f"reply {len(prompts)}"

    root, given = graph(model=ScriptedModel(replies=replies), mode="chat", output_key="k")
    runner = await make_runner(root)
    for message, reply_text in (("hi", "reply 1"), ("more", "reply 2")):
        row = speaks(reply_text, output=False)._replace(delta={"k": reply_text})
        assert await said(runner, message) == [row]
    assert prompts == [["hi"], ["hi", "reply 1", "more"]]
    assert given == []


async def test_an_after_agent_callback_replaces_the_output(make_runner: MakeRunner) -> None:
    """B-20: the text before is told, and is no output."""
    root, given = graph(after_agent_callback=replaces)
    runner = await make_runner(root)
    expected = [
        speaks("text", output=False),
        speaks("replaced", output=True),
        ends("after@1", "end"),
    ]
    assert await said(runner) == expected
    assert await log(runner) == expected
    assert given == ["replaced"]


async def test_an_after_agent_callback_may_leave_the_output(make_runner: MakeRunner) -> None:
    """B-20: the text is the output once the callback has ended, one time."""
    root, given = graph(after_agent_callback=[keeps])
    runner = await make_runner(root)
    assert await said(runner) == [
        speaks("text", output=False),
        speaks("text", output=True),
        ends("after@1", "end"),
    ]
    assert given == ["text"]


async def test_an_after_agent_callback_that_fails_leaves_no_output(make_runner: MakeRunner) -> None:
    """B-20: nothing that is stored says that the node has one."""
    root, given = graph(after_agent_callback=breaks)
    rows, _ = await fail(await make_runner(root))
    assert rows[:2] == [speaks("text", output=False), fails("a@1", "ValueError", author="a")]
    assert given == []


async def test_the_callback_of_a_plugin_is_one_more(make_runner: MakeRunner) -> None:
    """B-20: the last content counts."""

    class Last(BasePlugin):
        async def after_agent_callback(self, *, agent: Any, callback_context: Any) -> Any:
            return types.Content(role="model", parts=[types.Part(text="plugin's")])

    root, given = graph(after_agent_callback=replaces)
    runner = await make_runner(root, plugins=[Last(name="last")])
    rows = await said(runner)
    assert rows[-2:] == [speaks("plugin's", output=True), ends("after@1", "end")]
    assert sum(bool(one.output_for) and one.author == "a" for one in rows) == 1
    assert given == ["plugin's"]


@pytest.mark.parametrize("resumable", [False, True])
async def test_a_text_while_a_call_is_open_is_no_output(
    make_runner: MakeRunner, resumable: bool
) -> None:
    """B-24: the text after the response is."""

    def long(city: str) -> dict[str, str]:
        return {"status": "pending"}

    asks = call("long", city="Bonn")
    spoken = types.Content(role="model", parts=[types.Part(text="wait"), *(asks.parts or [])])
    replies: list[Any] = [spoken, *([] if resumable else ["interim"]), "final"]
    model = ScriptedModel(replies=lambda _: replies.pop(0))
    root, given = graph(model=model, tools=[LongRunningFunctionTool(long)])
    runner = await make_runner(root, resumability_config=ResumabilityConfig(is_resumable=resumable))
    before = await said(runner)
    assert not any(one.output_for for one in before)
    assert given == []
    (waiting,) = await runner.pending(**USER)
    rows = await reply(runner, answers("long", **{waiting.call_id: {"result": "done"}}))
    assert rows[-2:] == [speaks("final", output=True), ends("after@1", "end")]
    assert sum("wf@1/a@1" in (one.output_for or []) for one in await log(runner)) == 1
    assert given == ["final"]
