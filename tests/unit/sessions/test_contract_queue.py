"""What every session service keeps of who waits for a session, run against each of them (D7)."""

import asyncio
from dataclasses import dataclass, field
from uuid import uuid4

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from durable_adk.errors import (
    EventConflictError,
    InvocationCancelledError,
    QueueFullError,
    SessionBusyError,
    StaleSessionError,
)
from durable_adk.sessions import QueuePosition, SessionKey, Status
from durable_adk.sessions.log import invocations
from durable_adk.sessions.records import QueueBounds
from tests.support.examples import examples
from tests.unit.sessions.contract import abandon, event, log, names, opened, paused, resumed

FIRST, LAST = QueuePosition.FIRST, QueuePosition.LAST


async def asks(service, key, invocation_id, position=LAST, **options):
    """Try to open an invocation; whether its turn had come."""
    try:
        await opened(service, key, invocation_id, position=position, **options)
    except SessionBusyError:
        return False
    return True


async def closed(service, key, invocation_id):
    """End a running invocation."""
    record = await service.get_invocation(key, invocation_id)
    await service.close_invocation(
        key, invocation_id=invocation_id, epoch=record.epoch, status=Status.COMPLETED
    )


async def queue(service, key):
    """The invocations that wait, in order."""
    return [ticket.invocation_id for ticket in await service.waiting(key)]


async def test_turns_come_in_the_order_of_the_first_attempts(service, key):
    """However often the later ones ask first once the session is free (F28)."""
    await opened(service, key)
    for name in "abc":
        assert not await asks(service, key, name)
    assert not await asks(service, key, "a")
    await closed(service, key, "i1")
    for expected in "abc":
        for name in "cab":
            if await service.get_invocation(key, name) is None:
                assert await asks(service, key, name) == (name == expected)
        await closed(service, key, expected)
    assert await queue(service, key) == []
    assert (await service._store.read(lambda tables: tables.head(key))).waiting == 0


async def test_a_newcomer_does_not_overtake(service, key):
    """A free session is not free while others wait for it, whether one would wait or not."""
    await opened(service, key)
    await asks(service, key, "a")
    await closed(service, key, "i1")
    assert not await asks(service, key, "new")
    with pytest.raises(SessionBusyError, match="'a' waits"):
        await opened(service, key, "unwilling")
    assert await queue(service, key) == ["a", "new"]
    assert await asks(service, key, "a")


async def test_who_does_not_want_to_wait_takes_no_ticket(service, key):
    """Reject: refused, and nothing of it is left."""
    await opened(service, key)
    assert not await asks(service, key, "a", position=None)
    assert await queue(service, key) == []


async def test_first_goes_before_last(service, key):
    """Those at FIRST before those at LAST, each by arrival; a ticket moves forward, not back."""
    await opened(service, key)
    for name, position in [("a", LAST), ("b", FIRST), ("c", LAST), ("d", FIRST), ("c", FIRST)]:
        await asks(service, key, name, position)
    await asks(service, key, "b", LAST)
    assert await queue(service, key) == ["b", "c", "d", "a"]
    await closed(service, key, "i1")
    assert not await asks(service, key, "a")
    assert not await asks(service, key, "new", FIRST)
    assert await asks(service, key, "b", FIRST)


async def test_a_free_session_is_taken_by_a_first_before_those_who_wait(service, key):
    """Who comes at FIRST need not wait for a ticket at LAST."""
    await opened(service, key)
    await asks(service, key, "a")
    await closed(service, key, "i1")
    assert await asks(service, key, "b", FIRST)
    assert await queue(service, key) == ["a"]


async def test_only_its_owner_s_ticket_is_dropped(service, key):
    """Who takes a ticket for dead drops the one it looked at, and not another's of that name."""
    await opened(service, key)
    await asks(service, key, "a", lease_owner="dead")
    await asks(service, key, "a", lease_owner="its next run")
    await asks(service, key, "b")
    await service.leave_queue(key, invocation_id="a", lease_owner="dead")
    assert await queue(service, key) == ["a", "b"]
    await service.leave_queue(key, invocation_id="a", lease_owner="its next run")
    await service.leave_queue(key, invocation_id="a", lease_owner="its next run")
    assert await queue(service, key) == ["b"]
    await service.leave_queue(
        key._replace(session_id="missing"), invocation_id="a", lease_owner="x"
    )


async def test_who_has_withdrawn_an_opening_opens_no_more(service, key):
    """I11: an attempt that comes late is refused; another owner may open, and is found then."""
    first, other = {"lease_owner": "first"}, {"lease_owner": "other"}
    withdrawn = {"invocation_id": "a", **first}
    assert await service.withdraw_invocation(key, **withdrawn) is None  # there is no session
    await opened(service, key)
    await asks(service, key, "a", **first)
    assert await service.withdraw_invocation(key, **withdrawn) is None
    assert await queue(service, key) == []
    await closed(service, key, "i1")
    with pytest.raises(InvocationCancelledError):
        await opened(service, key, "a", **first)
    assert await asks(service, key, "a", **other)
    assert (await service.withdraw_invocation(key, **withdrawn)).lease_owner == "other"


async def test_an_opening_that_creates_its_session_can_be_withdrawn_as_well(service, key):
    """I11, I24: else a cancelled first message would open late, and nobody would run it."""
    withdrawn = {"invocation_id": "a", "lease_owner": "first", "create_session": True}
    assert await service.withdraw_invocation(key, **withdrawn) is None
    assert await service.withdraw_invocation(key, **withdrawn) is None
    with pytest.raises(InvocationCancelledError):
        await opened(service, key, "a", lease_owner="first")
    await opened(service, key, "b")


async def test_a_ticket_with_ttl_expires_unless_renewed(service, key, monkeypatch):
    """A process that died holds up nobody for longer than that; one that asks on keeps its turn."""
    now = 1e10
    monkeypatch.setattr("time.time", lambda: now)
    await opened(service, key)
    await asks(service, key, "dead", ttl=30.0)
    await asks(service, key, "alive", ttl=30.0)
    for _ in range(4):
        now += 10
        assert not await asks(service, key, "alive", ttl=30.0)
    assert await queue(service, key) == ["alive"]
    await closed(service, key, "i1")
    assert not await asks(service, key, "new")
    assert await asks(service, key, "alive", ttl=30.0)
    head = await service._store.read(lambda tables: tables.head(key))
    assert head.waiting == len(await service._store.read(lambda tables: tables.tickets(key))) == 1


async def test_what_has_begun_goes_before_what_has_not(service, key):
    """D9: an answer waits for the lease only, and its ticket holds new messages back."""
    await paused(service, key, "i0")
    await opened(service, key)
    await asks(service, key, "a")
    with pytest.raises(SessionBusyError):
        await resumed(service, key, "answer", "i0")
    assert await queue(service, key) == ["i0", "a"]
    await closed(service, key, "i1")
    assert not await asks(service, key, "a")
    assert not await asks(service, key, "interrupting", FIRST)
    assert (await resumed(service, key, "answer", "i0")).status is Status.RUNNING
    assert await queue(service, key) == ["interrupting", "a"]
    await closed(service, key, "i0")
    assert await asks(service, key, "interrupting", FIRST)


async def test_a_resumption_that_is_given_up_holds_up_nobody(service, key, monkeypatch):
    """Its lease owner may live on and not want the lease any more: the ticket expires by itself."""
    await paused(service, key, "i0")
    await opened(service, key)
    with pytest.raises(SessionBusyError):
        await resumed(service, key, "answer", "i0")
    await closed(service, key, "i1")
    assert not await asks(service, key, "a")
    monkeypatch.setattr("time.time", lambda: 1e11)
    assert await asks(service, key, "a")


@pytest.mark.parametrize("end", ["abandon", "delete"])
async def test_with_the_invocation_or_the_session_the_ticket_goes(service, key, end):
    """Nothing is left of who waited (I24)."""
    record = await paused(service, key, "i0")
    await opened(service, key)
    with pytest.raises(SessionBusyError):
        await resumed(service, key, "answer", "i0")
    if end == "abandon":
        await abandon(service, key, "i0", record.epoch)
    else:
        await service.delete_session(**names(key))
        await opened(service, key)
    assert await queue(service, key) == []
    await closed(service, key, "i1")
    assert await asks(service, key, "a")


async def test_an_opening_that_is_refused_keeps_its_ticket(service, key):
    """An error that stores nothing takes nothing away either (I5)."""
    await opened(service, key)
    await asks(service, key, "a")
    await closed(service, key, "i1")
    with pytest.raises(EventConflictError):
        await opened(service, key, "a", position=LAST, user_event=event("i1/user", "a"))
    assert await queue(service, key) == ["a"]


async def test_waiters_change_no_session(service, key):
    """The session, its log and its invocations are as if nobody waited."""
    await opened(service, key)
    before = await service.get_session(**names(key)), await log(service, key)
    await asks(service, key, "a")
    assert (await service.get_session(**names(key)), await log(service, key)) == before
    assert await service.get_invocation(key, "a") is None
    assert await queue(service, key._replace(session_id="missing")) == []


async def test_many_who_ask_at_once_are_served_one_by_one(service, key):
    """Ten at the same time: each gets a number of its own, and each its turn (F28)."""
    waiting = {f"w{number}" for number in range(10)}
    await opened(service, key)
    await asyncio.gather(*(asks(service, key, name) for name in waiting))
    tickets = await service.waiting(key)
    assert sorted(ticket.number for ticket in tickets) == list(range(1, 11))
    served, active = [], "i1"
    while waiting:
        await closed(service, key, active)
        turns = dict(
            zip(
                waiting,
                await asyncio.gather(*(asks(service, key, n) for n in waiting)),
                strict=True,
            )
        )
        (active,) = (name for name, turn in turns.items() if turn)
        waiting.remove(active)
        served.append(active)
    assert served == [ticket.invocation_id for ticket in tickets]


# ----- any history


@dataclass
class Expected:
    """Who waits and who is active, by the rules."""

    active: str | None = None
    queue: list = field(default_factory=list)
    done: set = field(default_factory=set)

    def ask(self, name, position):
        """Whether an opening has its turn."""
        if name == self.active or name in self.done:
            return True
        order = [one for _, one in self.queue]
        ahead = [one for one, _ in self.queue if position is None or one <= position]
        first = name == order[0] if name in order else not ahead
        if self.active is None and first:
            self.active = name
            self.leave(name)
            return True
        if position is not None and name not in order:
            at = sum(one <= position for one, _ in self.queue)
            self.queue.insert(at, (position, name))
        return False

    def leave(self, name):
        """A ticket is dropped."""
        self.queue = [item for item in self.queue if item[1] != name]

    def close(self):
        """The active one ends."""
        self.done |= {self.active}
        self.active = None


PLACES = {"a": LAST, "b": LAST, "c": FIRST, "d": FIRST, "e": None}
STEP = st.tuples(st.just("ask"), st.sampled_from(list(PLACES))) | st.tuples(
    st.sampled_from(["leave", "close", "close"]), st.sampled_from(list(PLACES))
)


@settings(
    max_examples=examples(60),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(st.lists(STEP, max_size=25))
async def test_any_history_follows_the_rules(service, steps):
    """Whoever asks, gives up or ends, in whatever order: the model and the store agree (I6)."""
    key = SessionKey(f"app-{uuid4()}", "user", "session")
    await service.create_session(**names(key))
    expected = Expected()
    for operation, name in steps:
        if operation == "ask":
            outcome = expected.ask(name, PLACES[name])
            for _ in range(2):  # a repeat changes nothing
                assert await asks(service, key, name, PLACES[name]) == outcome
        elif operation == "leave":
            expected.leave(name)
            await service.leave_queue(key, invocation_id=name, lease_owner="local:1")
        elif expected.active is not None:
            await closed(service, key, expected.active)
            expected.close()
        active = await service.active_invocation(key)
        assert (active and active.invocation_id) == expected.active
        assert await queue(service, key) == [name for _, name in expected.queue]


async def turn(service, key, invocation_id, **options):
    """How many come before a ticket; None: it may try."""
    try:
        await service.check_turn(key, invocation_id=invocation_id, lease_owner="local:1", **options)
    except SessionBusyError as busy:
        return busy.ahead
    return None


async def test_a_ticket_knows_how_many_come_first(service, key):
    """I22: an attempt learns it without a write; the first one begins when the session is free."""
    await opened(service, key)
    for name in "abc":
        await asks(service, key, name)
    assert [await turn(service, key, name) for name in "abcx"] == [0, 1, 2, None]
    await closed(service, key, "i1")
    assert [await turn(service, key, name) for name in "abc"] == [None, 1, 2]
    assert await asks(service, key, "a")
    assert [await turn(service, key, name) for name in "bc"] == [0, 1]
    assert [ticket.ahead for ticket in await service.waiting(key)] == [1, 2]
    assert await service.waiting(key, limit=1) == (await service.waiting(key))[:1]


async def test_a_ticket_that_has_to_be_renewed_tries(service, key, monkeypatch):
    """It would expire otherwise, while its lease owner only looks."""
    now = 1e10
    monkeypatch.setattr("time.time", lambda: now)
    await opened(service, key)
    await asks(service, key, "a", ttl=20.0)
    assert await turn(service, key, "a") == 0
    now += 15
    assert await turn(service, key, "a") is None


async def test_queues_have_bounds(service, key):
    """I22: one more is refused and stores nothing; a ticket is kept, for any session."""
    other = key._replace(session_id="other")
    await opened(service, key)
    await opened(service, other)
    bounds = QueueBounds(session=2, user=3)
    for name in "ab":
        assert not await asks(service, key, name, bounds=bounds)
    with pytest.raises(QueueFullError, match="max_queued_per_session") as of_session:
        await asks(service, key, "c", bounds=bounds)
    assert not await asks(service, other, "d", bounds=bounds)
    with pytest.raises(QueueFullError, match="max_queued_per_user") as of_user:
        await asks(service, other, "e", bounds=bounds)
    # The invocation that was refused has ended: under its id there is nothing but this error.
    for refused in (of_session, of_user):
        assert "send again under a new invocation id" in str(refused.value)
    assert not await asks(service, key, "a", bounds=bounds)
    assert await queue(service, key) == ["a", "b"]
    await closed(service, key, "i1")
    assert await asks(service, key, "a", bounds=bounds)


async def test_what_is_resumed_is_never_refused(service, key):
    """D9: it has begun, and its answer is accepted."""
    await paused(service, key)
    await opened(service, key, "i2")
    await asks(service, key, "a", bounds=QueueBounds(1, 1))
    with pytest.raises(SessionBusyError):
        await resumed(service, key)
    assert await queue(service, key) == ["i1", "a"]


async def test_withdrawn_notes_go_after_a_while(service, key, monkeypatch):
    """I24: they are kept for as long as a late attempt may come."""
    await opened(service, key)
    await service.withdraw_invocation(key, invocation_id="a", lease_owner="temporal:n:r:a")
    monkeypatch.setattr(invocations, "WITHDRAWN_FOR", -5)
    await service.withdraw_invocation(key, invocation_id="b", lease_owner="temporal:n:r:b")
    for name, left in (("a", 0), ("b", 1)):
        notes = await service.read_notes(key, invocation_id=name, kind="withdrawn")
        assert len(notes) == left


async def test_withdrawn_notes_go_with_the_end_of_an_invocation(service, key, monkeypatch):
    """I24: also in a session that refuses no other; those that a late attempt may meet stay."""
    for number, left in ((1, 1), (2, 0)):
        name = f"i{number}"
        epoch = (await opened(service, key, name)).epoch
        await service.withdraw_invocation(key, invocation_id="a", lease_owner="temporal:n:r:a")
        monkeypatch.setattr(invocations, "WITHDRAWN_FOR", 60 if left else -5)
        await service.close_invocation(
            key, invocation_id=name, epoch=epoch, status=Status.COMPLETED
        )
        notes = await service.read_notes(key, invocation_id="a", kind="withdrawn")
        assert len(notes) == left


async def end_paused(service, key, **options):
    """Cancel the paused invocation i1, with one seal."""
    options = {"revision": len(await log(service, key)), **options}
    return await service.close_paused(
        key,
        invocation_id="i1",
        epoch=1,
        status=Status.CANCELLED,
        seals=[event("i1.end")],
        **options,
    )


async def test_a_paused_invocation_ends_at_once_and_is_sealed_when_the_session_is_free(
    service, key
):
    """I15, I6, I9: nobody opens in between, and no event of it comes among the other's."""
    await paused(service, key)
    await opened(service, key, "i2")
    for _ in range(2):
        with pytest.raises(SessionBusyError):
            await end_paused(service, key)
    record = await service.get_invocation(key, "i1")
    assert (record.status, record.end_seq, record.sealed) == (Status.CANCELLED, None, False)
    assert not await asks(service, key, "a")
    await closed(service, key, "i2")
    assert not await asks(service, key, "a")
    sealed = await end_paused(service, key)
    assert sealed.sealed
    assert sealed.epoch == 3  # later than that of the one that ran meanwhile
    assert await end_paused(service, key, revision=0) == sealed
    assert [name for _, name in await log(service, key)][-1] == "i1.end"
    assert sealed.end_seq == len(await log(service, key))
    assert await asks(service, key, "a")


async def test_seals_for_an_older_log_change_nothing(service, key):
    """I9: there are events that the seals do not know of, and the invocation still waits."""
    record = await paused(service, key)
    await service.note(key, invocation_id="i1", kind="k", name="n", body="1")
    with pytest.raises(StaleSessionError):
        await end_paused(service, key, revision=0)
    assert await service.get_invocation(key, "i1") == record
    assert await service.read_notes(key, invocation_id="i1", kind="k")


async def test_an_event_is_found_by_its_id(service, key):
    """With its number; None for another session's."""
    await opened(service, key)
    found = await service.find_event(key, "i1/user")
    assert (found.seq, found.event.id) == (1, "i1/user")
    assert await service.find_event(key._replace(session_id="x"), "i1/user") is None


@pytest.mark.parametrize("answered", [False, True])
async def test_nobody_opens_between_an_end_and_its_seals(service, key, answered):
    """I6, I9: not even who waits at the first place already; an answer's ticket moves there too."""
    await paused(service, key)
    await opened(service, key, "i2")
    await asks(service, key, "a")
    await asks(service, key, "interrupting", FIRST)
    if answered:
        with pytest.raises(SessionBusyError):
            await resumed(service, key, lease_owner="local:1")
    with pytest.raises(SessionBusyError) as busy:
        await end_paused(service, key)
    assert busy.value.ahead == 0
    assert await queue(service, key) == ["i1", "interrupting", "a"]
    await closed(service, key, "i2")
    assert not await asks(service, key, "interrupting", FIRST)
    assert not await asks(service, key, "new", FIRST)
    assert (await end_paused(service, key)).sealed
    assert await asks(service, key, "interrupting", FIRST)


async def test_the_ticket_of_seals_does_not_expire(service, key, monkeypatch):
    """I9: its process may be dead; who opens next finds it, and stores them."""
    await paused(service, key)
    await opened(service, key, "i2")
    with pytest.raises(SessionBusyError):
        await end_paused(service, key)
    await closed(service, key, "i2")
    monkeypatch.setattr("time.time", lambda: 1e11)
    assert not await asks(service, key, "a")
    assert await queue(service, key) == ["i1", "a"]
