"""Sequential and loop agents, driven from the recorded manifest (D6)."""

import uuid
from typing import Any

import pytest
from google.genai import types

from durable_adk.agents import BaseAgent, LlmAgent, LoopAgent, SequentialAgent
from durable_adk.events import Event, EventActions
from durable_adk.models import ScriptedModel
from durable_adk.runners import InMemoryRunner
from tests.conftest import MakeRunner
from tests.support.scripts import gist, send, shape, state


def speaker(name: str, *replies: Any, **fields: Any) -> LlmAgent:
    """An agent that says one thing at each of its turns."""
    model = ScriptedModel(replies=lambda request: replies[0] if replies else name)
    return LlmAgent(name=name, model=model, **fields)


class Counter(BaseAgent):
    """Counts its runs in the state, and escalates at the last; then it says one thing more."""

    last: int = 3

    async def _run_async_impl(self, ctx: Any) -> Any:
        count = ctx.session.state.get(self.name, 0) + 1
        escalate = count >= self.last or None
        actions = EventActions(state_delta={self.name: count}, escalate=escalate)
        yield Event(author=self.name, actions=actions)
        yield Event(
            author=self.name, content=types.Content(parts=[types.Part(text=f"round {count}")])
        )


async def test_a_sequence_runs_its_agents_in_order_over_one_state(
    make_runner: MakeRunner,
) -> None:
    """AGT-30: the second's instruction reads what the first left."""
    second = speaker("second", instruction="Improve: {draft}")
    agent = SequentialAgent(
        name="pipeline", sub_agents=[speaker("first", output_key="draft"), second]
    )
    events = await send(await make_runner(agent))
    assert [gist(event) for event in events] == ["first text first", "second text second"]
    assert isinstance(second.model, ScriptedModel)
    instruction = str(second.model.requests[0].config.system_instruction)
    assert instruction.startswith("Improve: first")


async def test_an_escalation_does_not_stop_a_sequence(make_runner: MakeRunner) -> None:
    """AGT-31."""
    agent = SequentialAgent(name="s", sub_agents=[Counter(name="c", last=1), speaker("after")])
    events = await send(await make_runner(agent))
    assert [gist(event) for event in events] == ["c delta", "c text round 1", "after text after"]


async def test_a_loop_ends_when_an_agent_escalates_and_lets_it_finish(
    make_runner: MakeRunner,
) -> None:
    """AGT-32, OPEN-2, TRAP-31: the rest of the escalating agent's run, nothing of the others."""
    agent = LoopAgent(name="loop", sub_agents=[speaker("a"), Counter(name="c"), speaker("b")])
    runner = await make_runner(agent)
    rounds = ["a text a", "c delta", "c text round {}", "b text b"]
    expected = [line.format(number) for number in (1, 2, 3) for line in rounds][:-1]
    assert [gist(event) for event in await send(runner)] == expected
    assert await state(runner) == {"c": 3}


@pytest.mark.parametrize(("limit", "rounds"), [(-1, 0), (0, 0), (1, 1), (2, 2)])
async def test_a_loop_keeps_to_its_number_of_rounds(
    make_runner: MakeRunner, limit: int, rounds: int
) -> None:
    """TRAP-32: 0 means none, and so does less, as in ADK."""
    agent = LoopAgent(name="loop", max_iterations=limit, sub_agents=[speaker("a")])
    assert [gist(event) for event in await send(await make_runner(agent))] == ["a text a"] * rounds


async def test_an_escalation_ends_the_loops_around_it_too(make_runner: MakeRunner) -> None:
    """TRAP-31: the event passes through both loops; a sequence round them continues."""
    inner = LoopAgent(name="inner", sub_agents=[Counter(name="c", last=2)])
    outer = LoopAgent(name="outer", sub_agents=[inner, speaker("never")])
    agent = SequentialAgent(name="s", sub_agents=[outer, speaker("after")])
    events = await send(await make_runner(agent))
    assert [gist(event) for event in events if event.content] == [
        "c text round 1",
        "c text round 2",
        "after text after",
    ]


async def test_callbacks_of_workflow_agents_run(make_runner: MakeRunner) -> None:
    """AGT-5, AGT-6: before the first child and after the last; an answer replaces all of them."""

    def note(callback_context: Any) -> None:
        count = callback_context.state.get("notes", 0)
        callback_context.state["notes"] = count + 1

    def answer(callback_context: Any) -> types.Content:
        return types.Content(role="model", parts=[types.Part(text="instead")])

    skipped = SequentialAgent(
        name="skipped", sub_agents=[speaker("never")], before_agent_callback=answer
    )
    agent = SequentialAgent(
        name="s",
        sub_agents=[speaker("a"), skipped],
        before_agent_callback=note,
        after_agent_callback=note,
    )
    runner = await make_runner(agent)
    assert [gist(event) for event in await send(runner)] == [
        "s delta",
        "a text a",
        "skipped text instead",
        "s delta",
    ]
    assert await state(runner) == {"notes": 2}


async def test_a_nested_run_is_the_same_in_process_and_on_temporal(
    make_runner: MakeRunner,
) -> None:
    """D14: ids, order, content and changes."""

    def tree() -> BaseAgent:
        loop = LoopAgent(name="loop", sub_agents=[speaker("a"), Counter(name="c", last=2)])
        return SequentialAgent(name="s", sub_agents=[speaker("first"), loop, speaker("last")])

    name = f"e-{uuid.uuid4()}"
    async with InMemoryRunner(tree(), app_name="app") as reference:
        expected = await send(reference, invocation_id=name)
    runner = await make_runner(tree())
    events = await send(runner, invocation_id=name)
    assert [shape(event) for event in events] == [shape(event) for event in expected]
