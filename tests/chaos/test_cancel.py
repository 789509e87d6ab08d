"""An invocation is cancelled in the middle of something slow."""

import asyncio
from contextlib import suppress

import pytest
from temporalio.client import WorkflowFailureError
from temporalio.exceptions import CancelledError
from temporalio.service import RPCError

from durable_adk.conversation.tool_responses import ABORTED
from durable_adk.errors import InvocationCancelledError
from durable_adk.sessions import Status
from tests.support.bounds import bounded, within
from tests.support.processes import INVOCATION, Control, Workplace
from tests.support.scripts import gist, shape
from tests.support.waiting import PATIENCE, until

NEVER = 100 * PATIENCE
"""A heartbeat timeout that no test lives to see."""
REQUESTED = "activity_task_cancel_requested_event_attributes"
NOTED = "marker_recorded_event_attributes"
EXPECTED = {
    "tool": ["user text go", "waiter call patient", "waiter response patient"],
    "blocked": ["user text go", "waiter call blocked", "waiter response blocked"],
    "model": ["user text go"],
}


@bounded
@pytest.mark.parametrize("app", EXPECTED)
async def test_a_cancelled_invocation_ends_at_once_and_leaves_a_usable_session(
    app: str, place: Workplace
) -> None:
    """I15, CAN-1, CAN-2: what is committed stays, open calls are answered, the abort comes last.

    What runs would continue: its gate is opened only when the invocation has ended. No heartbeat is
    due: the workflow notifies it through the session store (CAN-3).
    """
    place.heartbeat = NEVER
    async with await place.start_worker():
        run = asyncio.create_task(place.all_of(app))
        await until(place.traces.runs)
        committed = await place.log(app)
        with within(3, "a cancelled invocation ends"):
            await place.workflow(app).cancel()
            events = await asyncio.wait_for(run, PATIENCE)
        log = await place.log(app)
        record = await place.sessions.get_invocation(place.key(app), INVOCATION)
        place.traces.open_gate()
        following = await asyncio.wait_for(place.all_of(app, invocation_id="next"), PATIENCE)
    assert [gist(e) for e in log] == [*EXPECTED[app], f"{log[-1].author} error {ABORTED}"]
    assert [shape(event) for event in log[: len(committed)]] == [shape(e) for e in committed]
    assert [shape(event) for event in events] == [shape(event) for event in log[1:]]
    assert record is not None
    assert record.status is Status.CANCELLED
    assert following[-1].is_final_response()
    assert following[-1].error_code is None
    # Else the reply to the heartbeat after the notice might not know of the cancellation yet.
    history = await place.workflow(app).fetch_history()
    [requested] = [one for one in history.events if one.HasField(REQUESTED)]
    [noted, *_] = [
        one for one in history.events if one.event_id > requested.event_id and one.HasField(NOTED)
    ]
    of_request = getattr(requested, REQUESTED).workflow_task_completed_event_id
    assert getattr(noted, NOTED).workflow_task_completed_event_id > of_request


@pytest.mark.parametrize("moment", ["commit.after:kill@3", "close.after:kill@1"])
async def test_a_cancellation_agrees_with_commits_that_the_history_does_not_know(
    moment: str, place: Workplace, controls: dict[str, Control]
) -> None:
    """F6, I15: the run that is cancelled takes another way than the one whose record was lost.

    Local commits are recorded when their workflow task ends. A worker that dies before that, or a
    task that the cancellation overtakes, leaves stored events that the replay does not know of.
    """
    async with await place.start_worker(moment) as dying:
        run = asyncio.create_task(place.all_of("burst"))
        await dying.end()
    await place.workflow("burst").cancel()
    async with await place.start_worker():
        await asyncio.wait_for(run, PATIENCE)
        outcome = (await asyncio.gather(place.workflow("burst").result(), return_exceptions=True))[
            0
        ]
        log = await place.log("burst")
        record = await place.sessions.get_invocation(place.key("burst"), INVOCATION)
        following = await asyncio.wait_for(place.all_of("burst", invocation_id="next"), PATIENCE)
    control = controls["burst"].stored
    assert record is not None
    if moment.startswith("close"):
        assert [shape(event) for event in log] == [shape(event) for event in control]
        assert record.status is Status.COMPLETED
        assert outcome["status"] == Status.COMPLETED
    else:
        assert [shape(event) for event in log[:4]] == [shape(event) for event in control[:4]]
        assert [event.error_code for event in log] == [None] * 4 + [ABORTED]
        assert record.status is Status.CANCELLED
        assert isinstance(outcome, WorkflowFailureError)
        assert isinstance(outcome.cause, CancelledError)
    assert len(following) == 4


async def test_an_invocation_cancelled_while_it_opens_is_closed_all_the_same(
    place: Workplace,
) -> None:
    """D11: no record stays RUNNING, whatever was stored before the cancellation arrived."""
    async with await place.start_worker("open.after:kill@1") as dying:
        run = asyncio.create_task(place.all_of("model"))
        await dying.end()
    await place.workflow("model").cancel()
    async with await place.start_worker():
        await asyncio.wait_for(run, PATIENCE)
    assert [gist(event) for event in await place.log("model")] == [
        "user text go",
        f"thinker error {ABORTED}",
    ]
    record = await place.sessions.get_invocation(place.key("model"), INVOCATION)
    assert record is not None
    assert record.status is Status.CANCELLED


async def test_a_message_cancelled_while_it_waits_for_its_session_leaves_no_trace(
    place: Workplace,
) -> None:
    """CAN-1, D7: it was never opened, and the one before it is not disturbed."""
    async with await place.start_worker():
        first = asyncio.create_task(place.all_of("tool"))
        await until(place.traces.runs)
        waiting = asyncio.create_task(place.all_of("tool", invocation_id="next"))
        await until(lambda: _is_beyond_the_local_attempt(place))
        await place.workflow("tool", "next").cancel()
        with pytest.raises(InvocationCancelledError):
            await asyncio.wait_for(waiting, PATIENCE)
        place.traces.open_gate()
        await asyncio.wait_for(first, PATIENCE)
        with pytest.raises(WorkflowFailureError):  # with it nothing more can come
            await place.workflow("tool", "next").result()
    assert {event.invocation_id for event in await place.log("tool")} == {INVOCATION}


async def _is_beyond_the_local_attempt(place: Workplace) -> bool:
    """Whether the next message waits in an activity of its workflow."""
    with suppress(RPCError):  # the workflow has not started yet
        description = await place.workflow("tool", "next").describe()
        return bool(description.raw_description.pending_activities)
    return False
