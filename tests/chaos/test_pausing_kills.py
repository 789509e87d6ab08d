"""A worker is killed while an invocation pauses, waits, or is answered (D9)."""

import asyncio

from google.genai import types

from durable_adk.sessions import Status
from tests.chaos.conftest import MakePlace
from tests.support.processes import INVOCATION, SESSION, Workplace
from tests.support.scripts import gist, shape
from tests.support.waiting import until

APP = "approval"


async def approve(place: Workplace) -> list[str]:
    """Approve what waits; what comes of it."""
    async with place.runner(APP) as runner:
        (pending,) = await runner.pending(user_id=place.queue, session_id=SESSION)
        response = types.FunctionResponse(
            id=pending.call_id, name=pending.name, response={"confirmed": True}
        )
        message = types.Content(role="user", parts=[types.Part(function_response=response)])
        events = runner.run_async(user_id=place.queue, session_id=SESSION, new_message=message)
        return [gist(event) async for event in events]


async def is_kept(place: Workplace) -> bool:
    """Whether the server has a signal that nobody has taken."""
    events = (await place.workflow(APP).fetch_history()).events
    return any(event.HasField("workflow_execution_signaled_event_attributes") for event in events)


async def status(place: Workplace) -> Status | None:
    """How far the store says the invocation is."""
    record = await place.sessions.get_invocation(place.key(APP), INVOCATION)
    return record.status if record else None


CASES = {
    "tool.halfway:kill@1": 1,
    "pause.after:kill@1;answer.after:kill@1;tool.after_run:kill@2": 3,
}
"""Where workers die, and how many of them; for the other places see the matrix of failpoints."""
CONCURRENT = 3


async def survived(place: Workplace, at: str) -> None:
    """Run, ask and approve while workers die; the outcome is as if none had."""
    async with place.restarted_worker(at):
        asked = [gist(event) for event in await place.all_of(APP)]
        assert await status(place) is Status.PAUSED, at
        assert await place.sessions.active_invocation(place.key(APP)) is None, at
        answered = await approve(place)
        await place.workflow(APP).result()
    assert asked == ASKED, at
    assert answered == ANSWERED, at
    assert await status(place) is Status.COMPLETED, at
    log = await place.log(APP)
    answer = "user response adk_request_confirmation"
    assert [gist(event) for event in log] == ["user text go", *ASKED, answer, *ANSWERED], at
    assert len({event.id for event in log}) == len(log), at
    assert place.traces.effects == 1, at
    assert place.deaths == CASES[at], at


ASKED = [
    "cashier call charge",
    "cashier call adk_request_confirmation",
    "cashier response charge",
]
ANSWERED = ["cashier response charge", "cashier text Charged."]


async def test_an_approval_survives_its_workers(make_place: MakePlace) -> None:
    """D9, I3, TOL-63: one pause, one answer, one effect, whichever moment the worker dies in."""
    turn = asyncio.Semaphore(CONCURRENT)

    async def run(at: str) -> None:
        async with turn:
            await survived(make_place(), at)

    await asyncio.gather(*map(run, CASES))


async def test_a_paused_invocation_outlives_every_process(make_place: MakePlace) -> None:
    """D9: no worker and no client for a while; what was asked before is as it was."""
    place = make_place()
    worker = await place.start_worker()
    async with worker:
        await place.all_of(APP)
    before = [shape(event) for event in await place.log(APP)]
    async with place.restarted_worker():
        assert await approve(place) == ANSWERED
    assert [shape(event) for event in await place.log(APP)][: len(before)] == before
    assert place.traces.effects == 1


async def test_an_answer_waits_for_a_worker(make_place: MakePlace) -> None:
    """D9: a signal that nobody takes is kept by the server, and taken once."""
    place = make_place()
    worker = await place.start_worker()
    async with worker:
        await place.all_of(APP)
    answering = asyncio.ensure_future(approve(place))
    await until(lambda: is_kept(place))
    async with place.restarted_worker():
        assert await answering == ANSWERED
        await until(lambda: place.traces.effects == 1)
