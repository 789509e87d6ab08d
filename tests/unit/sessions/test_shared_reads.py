"""Followers of one session read it together, and none depends on another one."""

import asyncio
import contextlib

import pytest

from durable_adk.client.feed import follow_changes
from durable_adk.errors import StoreUnavailableError
from durable_adk.sessions.records import StoredEvent
from durable_adk.sessions.session import SessionKey
from tests.support.waiting import PATIENCE, until
from tests.unit.sessions.contract import NEVER, event, only_changes_wake, opened, settled
from tests.unit.sessions.test_watching import close, commit, stores  # noqa: F401  # a fixture

MANY = 10


class Reads:
    """The reads of a store; the test holds some of them before they return."""

    def __init__(self, service, monkeypatch) -> None:
        self.begun = self.found = 0
        self.holds = 0
        self.ended = asyncio.Event()
        self.error = None
        self._read = service._store.read
        monkeypatch.setattr(service._store, "read", self)

    async def __call__(self, work):
        self.begun += 1
        found = await self._read(work)
        self.found += 1
        if self.holds:
            self.holds -= 1
            await self.ended.wait()
        if self.error is not None:
            raise self.error
        return found


@pytest.fixture
async def reads(stores, monkeypatch):  # noqa: F811  # the fixture
    """Those of the store that reads."""
    only_changes_wake(monkeypatch)
    await stores[0].read_events(SessionKey("a", "u", "s"))  # it is prepared
    return Reads(stores[0], monkeypatch)


@pytest.fixture
def watches(stores, key):  # noqa: F811
    """Some watches of a session."""
    with contextlib.ExitStack() as stack:
        yield lambda number: [stack.enter_context(stores[0].watch(key)) for _ in range(number)]


async def test_those_at_one_event_read_once(stores, key, reads, watches):  # noqa: F811
    """Each gets objects of its own (TRAP-8)."""
    reader, writer = stores
    await opened(writer, key)
    begun = reads.begun
    found = await asyncio.gather(
        *(reader.read_progress(one, "i1", after=0) for one in watches(MANY))
    )
    assert reads.begun == begun + 1
    assert all(one == found[0] for one in found)
    assert len({id(one.record) for one in found}) == MANY
    assert len({id(one.events[0].event) for one in found}) == MANY


async def test_those_at_other_events_read_for_themselves(stores, key, reads, watches):  # noqa: F811
    """What one of them wants is not what the others want."""
    reader, writer = stores
    await opened(writer, key)
    await opened_again(writer, key)
    begun, wanted = reads.begun, [("i1", 0), ("i1", 1), ("i2", 0), ("i2", 1)]
    found = await asyncio.gather(
        *(
            reader.read_progress(one, name, after=after)
            for one, (name, after) in zip(watches(4), wanted, strict=True)
        )
    )
    assert reads.begun == begun + 4
    seen = [(one.record.invocation_id, [item.seq for item in one.events]) for one in found]
    assert seen == [("i1", [1]), ("i1", []), ("i2", [1, 2]), ("i2", [2])]


async def opened_again(writer, key):
    await close(writer, key)
    await opened(writer, key, "i2")


async def test_one_that_leaves_ends_no_other(stores, key, reads, watches):  # noqa: F811
    """Also the one that began the read."""
    reader, writer = stores
    await opened(writer, key)
    reads.holds = 1
    tasks = [asyncio.create_task(reader.read_progress(one, "i1", after=0)) for one in watches(MANY)]
    begun = reads.begun
    await until(lambda: reads.begun == begun + 1)
    tasks[0].cancel()
    tasks[3].cancel()
    await asyncio.wait(tasks[:1])
    reads.ended.set()
    found = await asyncio.gather(*tasks, return_exceptions=True)
    left = [isinstance(one, asyncio.CancelledError) for one in found]
    assert left == [number in {0, 3} for number in range(MANY)]
    assert reads.begun == begun + 1


async def test_an_error_reaches_each_and_is_not_kept(stores, key, reads, watches):  # noqa: F811
    """They try again, and read anew; none of them raises the error."""
    reader, writer = stores
    await opened(writer, key)
    some, reads.error = watches(MANY), StoreUnavailableError("no")
    found = await asyncio.gather(
        *(reader.read_progress(one, "i1", after=0) for one in some), return_exceptions=True
    )
    assert found == [reads.error] * MANY
    reads.holds = 1
    left = asyncio.create_task(reader.read_progress(some[0], "i1", after=0))
    begun = reads.begun
    await until(lambda: reads.begun == begun + 1)
    left.cancel()
    await asyncio.wait({left})
    reads.ended.set()
    await until(lambda: not some[0]._session.reads)
    reads.error = None
    assert (await reader.read_progress(some[0], "i1", after=0)).record is not None


async def test_what_was_read_before_a_change_is_shared_with_none_after_it(
    stores,  # noqa: F811
    key,
    reads,
    watches,
):
    """One that is woken by the change would wait for the next one, and show this one late."""
    reader, writer = stores
    await opened(writer, key)
    first, second, third = watches(3)
    for one in (first, second, third):
        await reader.read_progress(one, "i1", after=1)
    await settled(reader)
    reads.holds = 1
    begun = reads.found
    early = asyncio.create_task(reader.read_progress(first, "i1", after=1))
    await until(lambda: reads.found == begun + 1)
    await commit(writer, key)
    async with asyncio.timeout(PATIENCE):
        await reader.changed(second, timeout=NEVER)
        late = asyncio.create_task(reader.read_progress(second, "i1", after=1))
        reads.ended.set()
        assert [item.seq for item in (await late).events] == [2]
        await early
        await reader.changed(first, timeout=NEVER)  # it has been woken, too


async def test_nothing_is_kept_after_a_read(stores, key, reads, watches):  # noqa: F811
    """A slow follower has what it has read itself, and no more."""
    reader, writer = stores
    await opened(writer, key)
    some = watches(MANY)
    await asyncio.gather(*(reader.read_progress(one, "i1", after=0) for one in some))
    await until(lambda: not some[0]._session.reads)


async def test_each_follower_gets_all_events_once(stores, key, reads):  # noqa: F811
    """From its own position, in its own time, also after others have left."""
    reader, writer = stores
    await opened(writer, key)
    seen = {number: list[int]() for number in range(MANY)}
    gate = asyncio.Event()

    async def follow(number):
        feed = follow_changes(reader, key, invocation_id="i1", after=number % 2)
        async for item in feed:
            if isinstance(item, StoredEvent):
                seen[number].append(item.seq)
                if number == 0:
                    await gate.wait()

    tasks = [asyncio.create_task(follow(number)) for number in range(MANY)]
    await until(lambda: all(seen[number] for number in range(0, MANY, 2)))
    for number in range(20):
        await writer.commit_event(key, event(f"e{number}"), invocation_id="i1", epoch=1)
        if number == 10:
            tasks[1].cancel()
    await close(writer, key)
    async with asyncio.timeout(PATIENCE):
        await asyncio.gather(*tasks[2:])
        assert seen[0] == [1]
        gate.set()
        await tasks[0]
    for number in set(range(MANY)) - {1}:
        assert seen[number] == list(range(1 + number % 2, 22))
    await asyncio.wait(tasks[1:2])
    assert tasks[1].cancelled()


async def test_followers_of_other_loops_read_for_themselves(stores, key):  # noqa: F811
    """A read belongs to the loop that made it."""
    reader, writer = stores
    await opened(writer, key)

    async def follow():
        feed = follow_changes(reader, key, invocation_id="i1")
        return [item.seq async for item in feed if isinstance(item, StoredEvent)]

    threads = [asyncio.create_task(asyncio.to_thread(asyncio.run, follow())) for _ in range(3)]
    here = asyncio.create_task(follow())
    await until(lambda: len(reader._changes.current()) == 4)
    for number in range(10):
        await writer.commit_event(key, event(f"e{number}"), invocation_id="i1", epoch=1)
    await close(writer, key)
    async with asyncio.timeout(PATIENCE):
        found = await asyncio.gather(here, *threads)
    assert found == [list(range(1, 12))] * 4
