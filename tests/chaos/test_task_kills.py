"""Workers are killed while task agents wait for the user, and while messages come to them."""

import asyncio

import pytest

from durable_adk.sessions import Status
from tests.chaos.conftest import MakePlace
from tests.support.graph_apps import TALKING
from tests.support.processes import INVOCATION, Workplace
from tests.support.waiting import PATIENCE

TALK = {"go": "Where?", "There.": "When?", "Now.": "How?", "So.": None}
"""What the user says, and what an agent asks then."""
CASES = {
    "pause.after:kill@1,2": 2,
    "pause.before:kill@1,2": 2,
    "reply.notified:kill@1,2": 2,
    "answer.before:kill@1": 0,
    "steer.before:kill@1,2": 2,
    "steer.after:kill@1,2,3": 3,
    "commit.after:kill@2,4,6,8": 4,
}
"""Where workers die, and how many of them."""


async def talk(place: Workplace) -> None:
    """Say all that the user says, and check what is asked."""
    for number, (text, question) in enumerate(TALK.items()):
        name = INVOCATION if number == 0 else f"message-{number}"
        said = place.all_of(TALKING, message=text, invocation_id=name)
        events = await asyncio.wait_for(said, PATIENCE)
        record = await place.sessions.get_invocation(place.key(TALKING), INVOCATION)
        assert record is not None
        if question is None:
            assert (events[-1].output, record.status) == ("Booked. Printed.", Status.COMPLETED)
        else:
            assert (events[-1].text, record.status) == (question, Status.PAUSED)
            assert await place.sessions.active_invocation(place.key(TALKING)) is None


async def check(place: Workplace) -> None:
    """Check that nothing was said twice, nor lost."""
    events = await place.log(TALKING)
    texts = [event.text for event in events if event.text]
    assert texts == ["go", "Where?", "There.", "When?", "Now.", "How?", "So.", "Booked."]
    assert {event.invocation_id for event in events} == {INVOCATION}
    assert len(place.traces.runs("last")) == 1


@pytest.mark.parametrize("at", CASES)
async def test_a_task_agent_survives_its_workers(at: str, place: Workplace) -> None:
    """I1 to I4, GR-173: each message comes to it once, wherever a worker dies."""
    async with place.restarted_worker(at):
        await talk(place)
        await place.workflow(TALKING).result()
    assert place.deaths == CASES[at]
    await check(place)


async def test_a_task_agent_waits_without_a_worker(make_place: MakePlace) -> None:
    """D9, GR-173: nothing runs while it waits, and another worker continues it."""
    place = make_place()
    place.history = 1
    async with await place.start_worker():
        await asyncio.wait_for(place.all_of(TALKING), PATIENCE)
    async with place.restarted_worker():
        for number, text in enumerate(list(TALK)[1:]):
            name = f"message-{number}"
            said = place.all_of(TALKING, message=text, invocation_id=name)
            await asyncio.wait_for(said, PATIENCE)
        await place.workflow(TALKING).result()
    await check(place)


@pytest.mark.parametrize("ends", ["terminate", "cancel"])
async def test_a_message_begins_anew_if_the_task_has_ended(
    ends: str, make_place: MakePlace
) -> None:
    """GR-173: it is no message to a task that nobody runs any more."""
    place = make_place()
    async with place.restarted_worker():
        await asyncio.wait_for(place.all_of(TALKING), PATIENCE)
        workflow = place.workflow(TALKING)
        await (workflow.terminate() if ends == "terminate" else workflow.cancel())
        said = place.all_of(TALKING, message="again", invocation_id="other")
        events = await asyncio.wait_for(said, PATIENCE)
    assert [(event.text, event.invocation_id) for event in events] == [("Where?", "other")]
