"""Conversations of several agents."""

from typing import Any

import pytest

from durable_adk.agents import LlmAgent
from durable_adk.errors import ModelError
from durable_adk.events import Event, EventActions
from durable_adk.models import ScriptedModel
from durable_adk.runners import InMemoryRunner
from tests.conftest import MakeRunner
from tests.support.scripts import call, gist, send, stored


def agent(name: str, *replies: Any, **fields: Any) -> LlmAgent:
    """An agent with a script."""
    return LlmAgent(
        name=name, description=f"does {name}", model=ScriptedModel(replies=replies), **fields
    )


def to(name: str) -> Any:
    """A model turn that hands over."""
    return call("transfer_to_agent", agent_name=name)


async def test_an_unknown_agent_fails_the_run_with_those_there_are(make_runner: MakeRunner) -> None:
    """AGT-53: the error names the agents; for a call without a name the model gets an error."""
    target = {"agent_name": "nobody"}
    replies = [call("transfer_to_agent"), call("transfer_to_agent", **target)]
    root = LlmAgent(
        name="root",
        model=ScriptedModel(replies=replies),
        sub_agents=[LlmAgent(name="b", model=ScriptedModel())],
    )
    runner = await make_runner(root)
    with pytest.raises(ValueError, match=r"no agent 'nobody' .* root, b"):
        await send(runner)
    responses = [
        one.response for event in await stored(runner) for one in event.get_function_responses()
    ]
    assert "agent_name" in (responses[0] or {})["error"]


@pytest.mark.thorough
async def test_many_transfers_need_no_stack() -> None:
    """TRAP-29: bounded by the limit on model calls only."""
    child = LlmAgent(name="child", model=ScriptedModel(replies=lambda _: to("desk")))
    turns = iter(range(1000))
    desk = LlmAgent(
        name="desk",
        model=ScriptedModel(replies=lambda _: to("child") if next(turns) < 110 else "enough"),
        sub_agents=[child],
    )
    events = await send(InMemoryRunner(desk))
    assert gist(events[-1]) == "desk text enough"
    assert len(events) == 110 * 4 + 1


async def test_peers_and_parents_are_targets_unless_that_is_disallowed() -> None:
    """AGT-51, AGT-52."""
    peer, closed = agent("peer"), agent("closed", disallow_transfer_to_parent=True)
    alone = agent("alone", disallow_transfer_to_parent=True, disallow_transfer_to_peers=True)
    agent("root", sub_agents=[peer, closed, alone])
    assert [target.name for target in peer.transfer_targets] == ["root", "closed", "alone"]
    assert [target.name for target in closed.transfer_targets] == ["peer", "alone"]
    assert alone.transfer_targets == []


async def test_the_model_is_told_whom_it_may_hand_over_to(make_runner: MakeRunner) -> None:
    """AGT-52, AGT-53: names and descriptions in the instruction, an enum in the schema."""
    root = agent("root", "hello", sub_agents=[agent("a"), agent("b")])
    await send(await make_runner(root))
    assert isinstance(root.model, ScriptedModel)
    (request,) = root.model.requests
    assert "Agent name: a\nAgent description: does a" in str(request.config.system_instruction)
    assert '"enum":["a","b"]' in request.config.model_dump_json(include={"tools"})


async def test_a_long_history_is_searched_from_its_end(make_runner: MakeRunner) -> None:
    """AGT-41, AGT-43: page after page, until an event names the agent that has the conversation."""
    child = LlmAgent(name="child", model=ScriptedModel(replies=lambda _: "mine"))
    runner = await make_runner(agent("root", to("child"), "root again", sub_agents=[child]))
    await send(runner)
    session = await runner.session_service.get_session(app_name="app", user_id="u", session_id="s")
    assert session is not None
    for number in range(100):  # of an agent that is gone
        gone = Event(author="gone", invocation_id=f"e-{number}", actions=EventActions())
        await runner.session_service.append_event(session, gone)
    assert [gist(event) for event in await send(runner)] == ["child text mine"]


async def test_after_a_failure_the_same_agent_gets_the_next_message(
    make_runner: MakeRunner,
) -> None:
    """AGT-41: the run's error event is no reply of the agent that it began with."""
    replies: list[Any] = [ModelError("no"), "here again"]
    sub = LlmAgent(name="sub", model=ScriptedModel(replies=lambda _: replies.pop(0)))
    handing = [call("transfer_to_agent", agent_name="sub"), "not me"]
    root = LlmAgent(name="root", model=ScriptedModel(replies=handing), sub_agents=[sub])
    runner = await make_runner(root)
    with pytest.raises(ModelError):
        await send(runner)
    assert gist((await stored(runner))[-1]).startswith("root error")
    assert [gist(event) for event in await send(runner, "again")] == ["sub text here again"]
