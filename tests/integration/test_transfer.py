"""Conversations of several agents."""

from typing import Any

import pytest

from durable_adk.agents import LlmAgent, SequentialAgent
from durable_adk.errors import AgentError, ModelError
from durable_adk.events import Event, EventActions
from durable_adk.models import ScriptedModel
from durable_adk.runners import InMemoryRunner
from tests.conftest import MakeRunner
from tests.support.scripts import call, gist, send, state, stored


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


async def test_the_next_message_goes_to_who_was_handed_over_to(make_runner: MakeRunner) -> None:
    """AGT-50, AGT-41, TRAP-18: the transferee answers now and the next time."""
    billing = agent("billing", "your invoice", "and paid")
    runner = await make_runner(agent("desk", to("billing"), sub_agents=[billing]))
    events = await send(runner)
    assert [gist(event) for event in events] == [
        "desk call transfer_to_agent",
        "desk response transfer_to_agent",
        "billing text your invoice",
    ]
    assert events[1].actions.transfer_to_agent == "billing"
    assert len({event.invocation_id for event in events}) == 1
    assert [gist(event) for event in await send(runner)] == ["billing text and paid"]


async def test_transfers_go_there_and_back_and_after_callbacks_last_first(
    make_runner: MakeRunner,
) -> None:
    """TRAP-29, 17.1: A to B to A in one invocation; the after callbacks come after the events."""

    def after(callback_context: Any) -> None:
        seen = callback_context.state.get("after", [])
        callback_context.state["after"] = [*seen, callback_context.agent_name]

    child = agent("child", to("desk"), after_agent_callback=after)
    desk = agent("desk", to("child"), "done", sub_agents=[child], after_agent_callback=after)
    runner = await make_runner(desk)
    events = await send(runner)
    assert [gist(event) for event in events][-4:] == [
        "desk text done",
        "desk delta",
        "child delta",
        "desk delta",
    ]
    assert await state(runner) == {"after": ["desk", "child", "desk"]}


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


async def test_handing_over_to_nobody_fails_the_run_after_the_response(
    make_runner: MakeRunner,
) -> None:
    """AGT-53, 17.1, RUN-8."""
    runner = await make_runner(agent("root", to("grandchild"), sub_agents=[agent("a")]))
    with pytest.raises(AgentError, match="grandchild") as raised:
        await send(runner)
    assert isinstance(raised.value, ValueError)
    assert [gist(event) for event in await stored(runner)][1:] == [
        "root call transfer_to_agent",
        "root response transfer_to_agent",
        "root error ValueError",
    ]


async def test_agents_below_a_workflow_agent_get_no_messages_of_their_own(
    make_runner: MakeRunner,
) -> None:
    """AGT-42: the second message goes through the whole sequence again."""
    steps = [
        LlmAgent(name=name, model=ScriptedModel(replies=lambda _, name=name: name))
        for name in ("one", "two")
    ]
    runner = await make_runner(SequentialAgent(name="s", sub_agents=steps))
    first = [gist(event) for event in await send(runner)]
    assert (
        [gist(event) for event in await send(runner)] == first == ["one text one", "two text two"]
    )


async def test_an_agent_that_may_not_go_back_keeps_no_conversation(
    make_runner: MakeRunner,
) -> None:
    """AGT-42: with disallow_transfer_to_parent the root gets the next message."""
    child = agent("child", "mine", disallow_transfer_to_parent=True)
    runner = await make_runner(agent("root", to("child"), "root again", sub_agents=[child]))
    await send(runner)
    assert [gist(event) for event in await send(runner)] == ["root text root again"]


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
