"""What every session service keeps of invocations that pause, run against each of them (D9)."""

import asyncio
import time
from dataclasses import dataclass, field
from uuid import uuid4

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from durable_adk.errors import (
    DurableAdkError,
    EventConflictError,
    InvalidRequestError,
    InvocationNotFoundError,
    LeaseLostError,
    SessionBusyError,
    StaleSessionError,
    StateValueError,
)
from durable_adk.sessions import SessionKey, Status
from tests.support.examples import examples
from tests.unit.sessions.contract import (
    abandon,
    ended,
    event,
    log,
    names,
    only_changes_wake,
    opened,
    paused,
    resumed,
    waiter,
)

RUNNING, PAUSED = Status.RUNNING, Status.PAUSED
COMPLETED, ABANDONED = Status.COMPLETED, Status.ABANDONED


async def everything(service, key):
    """All that a write could change in a session."""
    return (
        await service.get_session(**names(key)),
        await service.active_invocation(key),
        await service.invocations_by_time(app_name=key.app_name),
    )


# ----- the whole table


LOST, UNKNOWN, INVALID = LeaseLostError, InvocationNotFoundError, InvalidRequestError
STATUSES = (None, RUNNING, PAUSED, COMPLETED, ABANDONED)
OUTCOMES = {
    "open": (RUNNING, RUNNING, PAUSED, COMPLETED, ABANDONED),
    "pause": (LOST, PAUSED, PAUSED, LOST, LOST),
    "resume": (UNKNOWN, INVALID, RUNNING, INVALID, INVALID),
    "seal": (UNKNOWN, RUNNING, RUNNING, INVALID, INVALID),
    "commit": (LOST, RUNNING, LOST, LOST, LOST),
    "close": (LOST, COMPLETED, LOST, COMPLETED, LOST),
    "abandon": (LOST, ABANDONED, ABANDONED, COMPLETED, ABANDONED),
}
"""What an invocation in each of STATUSES becomes of an operation, or how that is refused."""


def operations(service, key, name="i1", epoch=1, event_id="e"):
    """Each as its lease owner does it, at the epoch that the invocation had last."""
    step = {"invocation_id": name, "epoch": epoch}
    return {
        "open": lambda: opened(service, key, name, lease_owner="local:2"),
        "pause": lambda: service.pause_invocation(key, **step),
        "resume": lambda: resumed(service, key, event_id, name),
        "seal": lambda: resumed(service, key, None, name),
        "commit": lambda: service.commit_event(key, event(event_id, name), **step),
        "close": lambda: service.close_invocation(key, **step, status=COMPLETED),
        "abandon": lambda: abandon(service, key, **step),
    }


async def outcome_of(operation):
    """Its result, or the class of its error."""
    try:
        return await operation()
    except DurableAdkError as error:
        return type(error)


@dataclass
class Expected:
    """A session as it should be, by the table above."""

    invocations: dict = field(default_factory=dict)
    """Of each invocation status, epoch and number of pauses."""
    epochs: int = 0
    log: list = field(default_factory=list)

    def lease_owner(self):
        """Who has the lease."""
        running = [name for name, one in self.invocations.items() if one[0] is RUNNING]
        assert len(running) <= 1
        return running[0] if running else None

    def operate(self, operation, name, event_id):
        """The operation's outcome: the invocation's status or an error."""
        status, epoch, pauses = self.invocations.get(name, (None, 0, 0))
        outcome = OUTCOMES[operation][STATUSES.index(status)]
        if not isinstance(outcome, Status):
            return outcome
        takes = outcome is RUNNING and status is not RUNNING
        if takes and self.lease_owner():
            return SessionBusyError
        if takes:
            self.epochs += 1
            epoch = self.epochs
        if outcome is PAUSED and status is RUNNING:
            pauses += 1
        if operation in ("resume", "commit") or (operation == "open" and takes):
            self.log.append(f"{name}/user" if operation == "open" else event_id)
        self.invocations[name] = outcome, epoch, pauses
        return outcome


@settings(
    max_examples=examples(40),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
    st.lists(st.tuples(st.sampled_from(list(OUTCOMES)), st.sampled_from(["i1", "i2"])), max_size=14)
)
async def test_any_history_follows_the_table(service, steps):
    """Two invocations go the ways of the table, and a repeat changes nothing (D9, TRAP-11)."""
    key = SessionKey(f"app-{uuid4()}", "user", "session")
    await service.create_session(**names(key))
    expected = Expected()
    for number, (operation, name) in enumerate(steps):
        epoch = expected.invocations.get(name, (None, 0))[1]
        outcome = expected.operate(operation, name, f"e{number}")
        step = operations(service, key, name, epoch, f"e{number}")[operation]
        result = await outcome_of(step)
        after = session, active, listed = await everything(service, key)
        assert await outcome_of(step) == result
        assert await everything(service, key) == after
        records = {one.invocation_id: one for _, one in listed}
        if isinstance(outcome, Status):
            assert result == (len(expected.log) if operation == "commit" else records[name])
        else:
            assert result is outcome
        assert expected.invocations == {
            name: (one.status, one.epoch, one.pauses) for name, one in records.items()
        }
        assert active == records.get(expected.lease_owner())
        assert [one.id for one in session.events] == expected.log


# ----- pausing


async def test_pausing(service, key):
    """A pause gives the lease back and ends nothing; the next is counted again (D9)."""
    opening = await opened(service, key)
    record = await paused(service, key)
    assert record == opening.model_copy(
        update={"status": PAUSED, "pauses": 1, "update_time": record.update_time}
    )
    assert record.update_time >= opening.update_time
    assert not record.status.closed
    assert await service.active_invocation(key) is None
    assert await service.get_invocation(key, "i1") == await opened(service, key) == record
    again = await resumed(service, key)
    again = await service.pause_invocation(key, invocation_id="i1", epoch=again.epoch)
    assert (again.pauses, again.end_seq) == (2, None)


async def test_only_the_owner_pauses(service, key):
    """A wrong epoch, another invocation, an owner of before and a lost session are refused (I6)."""
    with pytest.raises(LeaseLostError):
        await service.pause_invocation(key, invocation_id="i1", epoch=1)
    await opened(service, key)
    for wrong in ({"invocation_id": "i1", "epoch": 2}, {"invocation_id": "ix", "epoch": 1}):
        with pytest.raises(LeaseLostError):
            await service.pause_invocation(key, **wrong)
    await paused(service, key)
    running = await resumed(service, key)
    with pytest.raises(LeaseLostError):
        await service.pause_invocation(key, invocation_id="i1", epoch=1)
    assert await service.active_invocation(key) == running
    await service.delete_session(**names(key))
    with pytest.raises(LeaseLostError):
        await service.pause_invocation(key, invocation_id="i1", epoch=2)


async def test_a_pause_that_comes_late_is_refused(service, key):
    """I6: of an attempt that was taken for dead, while its invocation continued without a pause.

    What others have stored meanwhile says nothing of it.
    """
    await opened(service, key, "i1")
    await paused_at(service, key, 1)
    await opened(service, key, "i2")
    await service.close_invocation(key, invocation_id="i2", epoch=2, status=COMPLETED)
    record = await service.resume_invocation(
        key, invocation_id="i1", lease_owner="local:1", user_event=None
    )
    seq = await service.commit_event(
        key, event("i1/1", "i1"), invocation_id="i1", epoch=record.epoch
    )
    with pytest.raises(LeaseLostError):
        await paused_at(service, key, 1, record.epoch)
    assert (await paused_at(service, key, seq, record.epoch)).status is PAUSED


async def paused_at(service, key, revision, epoch=1):
    """Pause the first invocation, as one that knows of the events up to there."""
    return await service.pause_invocation(key, invocation_id="i1", epoch=epoch, revision=revision)


async def test_others_run_while_one_is_paused(service, key):
    """While one waits another runs to its end, and the log has both in order (D7, D9)."""
    await paused(service, key, "i1")
    other = await opened(service, key, "i2")
    with pytest.raises(SessionBusyError, match="i2"):
        await resumed(service, key)
    assert (await service.get_invocation(key, "i1")).status is PAUSED
    await service.commit_event(key, event("c", "i2"), invocation_id="i2", epoch=other.epoch)
    await service.close_invocation(key, invocation_id="i2", epoch=other.epoch, status=COMPLETED)
    record = await resumed(service, key)
    assert (record.epoch, record.start_seq) == (3, 1)
    assert await service.commit_event(key, event("d"), invocation_id="i1", epoch=3) == 5
    assert await log(service, key) == [
        (1, "i1/user"),
        (2, "i2/user"),
        (3, "c"),
        (4, "a"),
        (5, "d"),
    ]


async def test_a_paused_invocation_does_not_write(service, key):
    """Without its lease it cannot commit or renew; what it committed before is found (I6)."""
    await opened(service, key, ttl=10.0)
    commit = {"invocation_id": "i1", "epoch": 1}
    await service.commit_event(key, event("c"), **commit)
    await paused(service, key, ttl=10.0)
    before = await everything(service, key)
    with pytest.raises(LeaseLostError):
        await service.commit_event(key, event("d"), **commit)
    await service.renew(key, **commit)
    assert await service.commit_event(key, event("c"), **commit) == 2
    assert await everything(service, key) == before


async def test_a_paused_session_takes_events_from_outside(service, key):
    """What others append while an invocation waits is numbered before its answer."""
    await paused(service, key)
    session = await service.get_session(**names(key))
    await service.append_event(session, event("outside", "other"))
    await resumed(service, key)
    assert await log(service, key) == [(1, "i1/user"), (2, "outside"), (3, "a")]


# ----- resuming


async def test_resuming(service, key):
    """Answer, its delta, the lease, its owner and time come together, under a new epoch (D9)."""
    waiting = await paused(service, key)
    answer = event("a", delta={"n": 1, "temp:t": 1})
    record = await resumed(service, key, user_event=answer, lease_owner="workflow:x")
    assert record == waiting.model_copy(
        update={
            "status": RUNNING,
            "epoch": 2,
            "lease_owner": "workflow:x",
            "update_time": record.update_time,
        }
    )
    assert await service.active_invocation(key) == record
    assert await service.read_state(key) == (2, {"n": 1})
    with pytest.raises(LeaseLostError):
        await service.commit_event(key, event("c"), invocation_id="i1", epoch=1)
    assert await service.commit_event(key, event("c"), invocation_id="i1", epoch=2) == 3


async def test_repeated_answer_finds_its_first_attempt(service, key):
    """An answer sent again, by whomever and however late, changes nothing (TRAP-11, TRAP-12)."""
    await paused(service, key)
    first = await resumed(service, key)
    assert await resumed(service, key, lease_owner="somebody else") == first
    late = event("a", timestamp=9.0, delta={"temp:t": 1})
    assert await resumed(service, key, user_event=late) == first
    waiting = await service.pause_invocation(key, invocation_id="i1", epoch=2)
    assert await resumed(service, key) == waiting
    await opened(service, key, "i2")
    assert await resumed(service, key) == waiting
    closed = await abandon(service, key, epoch=2)
    assert await resumed(service, key) == closed
    assert await log(service, key) == [(1, "i1/user"), (2, "a"), (3, "i2/user")]


async def test_unfit_answers_are_refused(service, key):
    """An answer that cannot be stored, or whose id is taken, leaves the invocation paused."""
    await opened(service, key)
    await service.commit_event(key, event("taken"), invocation_id="i1", epoch=1)
    await paused(service, key)
    before = await everything(service, key)
    for unfit, error in (
        (event("taken", text="other"), EventConflictError),
        (event("a", "i2"), InvalidRequestError),
        (event(""), InvalidRequestError),
        (event("a", partial=True), InvalidRequestError),
        (event("a", delta={"n": {1}}), StateValueError),
    ):
        with pytest.raises(error):
            await resumed(service, key, user_event=unfit)
    assert await everything(service, key) == before


async def test_only_a_paused_invocation_is_resumed(service, key):
    """An unknown, running or closed invocation is refused, and the error says which it is."""
    with pytest.raises(InvocationNotFoundError):
        await resumed(service, key)
    await opened(service, key)
    with pytest.raises(InvocationNotFoundError, match="ix"):
        await resumed(service, key, invocation_id="ix")
    with pytest.raises(InvalidRequestError, match="running"):
        await resumed(service, key)
    with pytest.raises(InvalidRequestError, match="running"):
        await resumed(service, key, None, lease_owner="somebody else")
    await service.close_invocation(key, invocation_id="i1", epoch=1, status=COMPLETED)
    for answer in ("a", None):
        with pytest.raises(InvalidRequestError, match="completed"):
            await resumed(service, key, answer)
    assert await log(service, key) == [(1, "i1/user")]


async def test_resuming_without_an_answer(service, key):
    """A cancelled pause takes its lease to store how it ends; no event is added for it."""
    await paused(service, key)
    record = await resumed(service, key, None)
    assert await resumed(service, key, None) == record
    assert (record.status, record.epoch, record.lease_owner) == (RUNNING, 2, "local:2")
    step = {"invocation_id": "i1", "epoch": 2}
    assert await service.commit_event(key, event("seal"), **step) == 2
    closed = await service.close_invocation(key, **step, status=Status.CANCELLED)
    assert (closed.status, closed.end_seq, closed.pauses) == (Status.CANCELLED, 2, 1)


@pytest.mark.parametrize("answer", ["a", None])
async def test_expired_lease_does_not_keep_a_paused_invocation(service, key, monkeypatch, answer):
    """A resumption takes an expired lease over, and its own expires by its own ttl."""
    now = time.time()
    monkeypatch.setattr(time, "time", lambda: now)
    await paused(service, key, "i1", ttl=1.0)
    await opened(service, key, "i2", ttl=10.0)
    now += 9
    with pytest.raises(SessionBusyError):
        await resumed(service, key, answer)
    now += 2
    record = await resumed(service, key, answer, ttl=20.0)
    gone = await service.get_invocation(key, "i2")
    assert (gone.status, gone.end_seq, gone.update_time) == (ABANDONED, 2, now)
    with pytest.raises(LeaseLostError):
        await service.pause_invocation(key, invocation_id="i2", epoch=2)
    now += 19
    assert await service.active_invocation(key) == record
    now += 2
    assert await service.active_invocation(key) is None


@pytest.mark.parametrize("same", [True, False])
async def test_one_of_many_answers_wins(service, key, same):
    """Of answers sent at once one is stored; the same one is acknowledged to all (I1, I6)."""
    await paused(service, key)
    results = await asyncio.gather(
        *(resumed(service, key, "a" if same else f"a{n}") for n in range(8)),
        return_exceptions=True,
    )
    refused = [one for one in results if isinstance(one, InvalidRequestError)]
    records = [one for one in results if one not in refused]
    assert len(refused) == (0 if same else 7)
    assert records == [await service.active_invocation(key)] * len(records)
    assert len(await service.read_events(key)) == 2
    assert records[0].epoch == 2


async def test_one_of_many_paused_invocations_runs(service, key):
    """Of paused invocations that are answered at once one gets the lease (D7)."""
    for n in range(4):
        await paused(service, key, f"i{n}")
    results = await asyncio.gather(
        *(resumed(service, key, f"a{n}", f"i{n}") for n in range(4)), return_exceptions=True
    )
    assert sum(isinstance(one, SessionBusyError) for one in results) == 3
    listed = await service.invocations_by_time(app_name=key.app_name, statuses={PAUSED})
    assert len(listed) == 3
    assert len(await service.read_events(key)) == 5


# ----- ending


async def test_a_paused_invocation_is_only_abandoned(service, key):
    """Nobody closes it otherwise; abandoned, it takes no answer, and a repeat changes nothing."""
    await paused(service, key)
    step = {"invocation_id": "i1", "epoch": 1}
    for status in (COMPLETED, Status.FAILED, Status.CANCELLED):
        with pytest.raises(LeaseLostError):
            await service.close_invocation(key, **step, status=status)
    error = {"class": "InvocationTerminatedError"}
    closed = await service.close_invocation(key, **step, status=ABANDONED, error=error)
    assert (closed.status, closed.end_seq, closed.error) == (ABANDONED, 1, error)
    assert await abandon(service, key) == closed
    with pytest.raises(InvalidRequestError, match="abandoned"):
        await resumed(service, key)
    with pytest.raises(LeaseLostError):
        await service.close_invocation(key, **step, status=COMPLETED)


async def test_abandoning_a_paused_invocation_leaves_the_lease_alone(service, key):
    """Another invocation that runs meanwhile keeps its lease, and its end is not moved (I6)."""
    await paused(service, key, "i1")
    running = await opened(service, key, "i2")
    assert (await abandon(service, key, "i1")).end_seq == 2
    assert await service.active_invocation(key) == running
    assert await service.commit_event(key, event("c", "i2"), invocation_id="i2", epoch=2) == 3


async def test_abandoning_needs_the_epoch_of_the_pause(service, key):
    """Who saw an earlier pause does not end a later one, whose lease owner may be alive (I6)."""
    await paused(service, key)
    await resumed(service, key)
    waiting = await service.pause_invocation(key, invocation_id="i1", epoch=2)
    with pytest.raises(LeaseLostError):
        await abandon(service, key, epoch=1)
    assert await service.get_invocation(key, "i1") == waiting


# ----- listing and waiting


async def test_unfit_listings_are_refused(service, key):
    """Unusable ids and a negative limit are the caller's mistake."""
    for unfit in ({"app_name": ""}, {"user_id": "a\0"}, {"limit": -1}):
        with pytest.raises(InvalidRequestError):
            await service.invocations_by_time(**{"app_name": key.app_name} | unfit)


async def test_listed_records_are_copies(service, key):
    """Changing a listed record changes nothing that others read (TRAP-8)."""
    await paused(service, key)
    ((_, record),) = await service.invocations_by_time(app_name=key.app_name)
    record.status = COMPLETED
    assert (await service.get_invocation(key, "i1")).status is PAUSED


@pytest.mark.parametrize("operation", ["pause", "seal", "abandon"])
async def test_waiting_ends_with_a_pause(service, key, operation, monkeypatch):
    """What adds no event but changes an invocation wakes a waiter (D8)."""
    only_changes_wake(monkeypatch)
    await (opened if operation == "pause" else paused)(service, key)
    waiting = await waiter(service, key)
    await operations(service, key)[operation]()
    await ended(waiting)


async def test_a_stale_copy_does_not_show_the_answer(service, key):
    """An answer moves the revision like any event: copies of before may not append (SSN-30)."""
    await paused(service, key)
    session = await service.get_session(**names(key))
    await resumed(service, key)
    with pytest.raises(StaleSessionError):
        await service.append_event(session, event("late", "other"))
