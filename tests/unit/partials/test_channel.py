"""What every channel keeps, run against each of them."""

import asyncio
import threading

import pytest

from durable_adk.activities.user_code.watchdog import stack_lines
from durable_adk.partials import PostgresPartials, RedisPartials
from durable_adk.partials.chunks import KeptChunks
from durable_adk.partials.partial import decode
from durable_adk.partials.subscription import BUFFER, BUFFER_BYTES
from durable_adk.sessions import SessionKey
from tests.support.chunks import INVOCATION, KEY, chunk
from tests.support.waiting import PATIENCE, until, until_true


async def arrivals(subscription, number):
    async with asyncio.timeout(PATIENCE):
        return [await subscription.get() for _ in range(number)]


async def test_a_viewer_gets_what_was_published_in_order(channel):
    """Chunks arrive equal, complete and in the order they were published."""
    sent = [chunk(f"word{n} ", n) for n in range(10)]
    async with channel.subscribe(KEY, INVOCATION) as viewer:
        for partial in sent:
            channel.publish(partial)
        assert await arrivals(viewer, 10) == sent


@pytest.mark.parametrize("length", [1, 5_000])
async def test_a_text_that_is_said_again_arrives_again(channel, length):
    """Chunks that are equal but for their place are all delivered, short or long, from one step."""
    sent = [chunk("ha" * length, n) for n in range(8)]
    async with channel.subscribe(KEY, INVOCATION) as viewer:
        for partial in sent:
            channel.publish(partial)
        assert await arrivals(viewer, 8) == sent


async def test_every_viewer_gets_everything(channel):
    """Any number may watch, and one that leaves takes nothing from the others (D8)."""
    async with channel.subscribe(KEY, INVOCATION) as stays:
        async with channel.subscribe(KEY, INVOCATION) as leaves:
            channel.publish(chunk("a", 0))
            assert await arrivals(leaves, 1) == [chunk("a", 0)]
        channel.publish(chunk("b", 1))
        assert await arrivals(stays, 2) == [chunk("a", 0), chunk("b", 1)]


async def test_nobody_listening_is_no_error(channel):
    """What is published without viewers is gone: before the first, and after the last.

    PostgreSQL and Redis send from another thread, so it may be on its way when a viewer comes.
    """
    channel.publish(chunk("before", 0))
    async with channel.subscribe(KEY, INVOCATION):
        pass
    channel.publish(chunk("between", 1))
    async with channel.subscribe(KEY, INVOCATION) as viewer:
        channel.publish(chunk("now", 2))
        heard = await arrivals(viewer, 1)
        while isinstance(channel, PostgresPartials | RedisPartials) and heard[-1] != chunk(
            "now", 2
        ):
            assert heard[-1] in (chunk("before", 0), chunk("between", 1))
            heard = await arrivals(viewer, 1)
        assert heard == [chunk("now", 2)]


@pytest.mark.parametrize(
    ("key", "invocation_id"),
    [
        (KEY, "e-2"),
        (SessionKey("app", "other", "session"), INVOCATION),
        (SessionKey("appu", "ser", "session"), INVOCATION),
    ],
)
async def test_a_viewer_sees_one_invocation(channel, key, invocation_id):
    """Chunks of other invocations, users and sessions never reach it (S2)."""
    async with channel.subscribe(key, invocation_id) as other:
        async with channel.subscribe(KEY, INVOCATION) as viewer:
            channel.publish(chunk("mine"))
            await arrivals(viewer, 1)
        assert other.drain() == []


async def test_a_slow_viewer_costs_only_itself(channel):
    """One whose loop stalls blocks neither step nor others; what is kept is bounded."""
    slow_is_in, go_on = threading.Event(), threading.Event()
    left = []

    async def stand_still():
        async with channel.subscribe(KEY, INVOCATION) as slow:
            slow_is_in.set()
            go_on.wait(PATIENCE)
            await until(lambda: slow._arrived)
            left.extend(slow.drain())

    thread = threading.Thread(target=lambda: asyncio.run(stand_still()))
    thread.start()
    await asyncio.to_thread(slow_is_in.wait, PATIENCE)
    async with channel.subscribe(KEY, INVOCATION) as quick:
        seen = []
        for index in range(BUFFER + 500):
            channel.publish(chunk("x", index))
            seen.append((await arrivals(quick, 1))[0].index)
    go_on.set()
    await asyncio.to_thread(thread.join)
    assert seen == list(range(BUFFER + 500))
    assert 0 < len(left) <= BUFFER


async def test_the_oldest_chunks_are_lost_first(channel):
    """A viewer that does not take its chunks has the newest ones that fit into the buffer."""
    async with channel.subscribe(KEY, INVOCATION) as viewer:
        for index in range(BUFFER + 50):
            channel.publish(chunk("x", index))
            await asyncio.sleep(0)  # the loop runs, but nobody takes anything
        await until(lambda: newest(viewer) >= BUFFER + 49)
        assert [partial.index for partial in viewer.drain()] == list(range(50, BUFFER + 50))


def newest(viewer):
    """The index of the newest chunk that a viewer has not taken."""
    return decode(viewer._arrived[-1]).index if viewer._arrived else -1


async def test_large_chunks_take_no_more_room(channel):
    """A viewer that does not take its chunks costs a MB, whatever their size."""
    async with channel.subscribe(KEY, INVOCATION) as viewer:
        last = 2 * BUFFER_BYTES // 10_000
        for index in range(last + 1):
            channel.publish(chunk(f"{index:05}" * 2_000, index))
            await asyncio.sleep(0)
        await until(lambda: newest(viewer) >= last)
        kept = [partial.index for partial in viewer.drain()]
        assert kept == list(range(kept[0], last + 1))
        assert 0.9 * BUFFER_BYTES < 10_000 * len(kept) <= BUFFER_BYTES


async def test_steps_publish_from_their_own_threads(channel):
    """Several threads publish at once: nothing is lost, and each one's order is kept."""
    names = [f"e-1.{n}" for n in range(4)]
    together = threading.Barrier(4)

    def publish(name):
        for index in range(50):
            together.wait(PATIENCE)
            channel.publish(chunk("x", index, event_id=name))

    async with channel.subscribe(KEY, INVOCATION) as viewer:
        await asyncio.gather(*(asyncio.to_thread(publish, name) for name in names))
        arrived = viewer.drain()

        def all_are_there():
            channel.publish(chunk("x", event_id="end"))  # what a full socket refused goes along
            arrived.extend(viewer.drain())
            return len(arrived) >= 200 and arrived[-1].event.id == "end"

        await until(all_are_there)
    for name in names:
        assert [p.index for p in arrived if p.event.id == name] == list(range(50))


async def test_nobody_shares_an_object(channel):
    """FLW-77, TRAP-8: what a step or a viewer changes later changes nothing for anybody else."""
    partial = chunk("as it was")
    async with (
        channel.subscribe(KEY, INVOCATION) as first,
        channel.subscribe(KEY, INVOCATION) as second,
    ):
        channel.publish(partial)
        partial.event.actions.state_delta["late"] = 1
        (await arrivals(first, 1))[0].event.parts[0].text = "changed"
        assert await arrivals(second, 1) == [chunk("as it was")]


async def test_a_chunk_that_is_no_text_is_lost_in_silence(channel):
    """A model may cut an emoji into two surrogates: never an error, and the next chunk arrives."""
    async with channel.subscribe(KEY, INVOCATION) as viewer:
        channel.publish(chunk("\ud83d", 0))
        channel.publish(chunk("next", 1))
        assert await arrivals(viewer, 1) == [chunk("next", 1)]


async def test_an_idle_viewer_is_woken_by_another_thread(channel):
    """It waits for the chunk and not for whatever its loop does next."""
    waits = threading.get_ident()

    def publish():
        until_true(lambda: not stack_lines(waits))  # it has nothing to do
        channel.publish(chunk("a"))

    async with channel.subscribe(KEY, INVOCATION) as viewer, asyncio.timeout(PATIENCE):
        thread = threading.Thread(target=publish)
        thread.start()
        assert await viewer.get() == chunk("a")
    thread.join()


async def test_waiting_can_be_cancelled(channel):
    """A viewer that stops waiting loses no chunk."""
    async with channel.subscribe(KEY, INVOCATION) as viewer:
        waiting = asyncio.ensure_future(viewer.get())
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        channel.publish(chunk("a"))
        assert await arrivals(viewer, 1) == [chunk("a")]


async def test_who_comes_late_gets_all_so_far(channel):
    """With the next chunk it has those before it, in order; who was there has none missing."""
    sent = [chunk(f"<{n}>", n) for n in range(200)]
    async with channel.subscribe(KEY, INVOCATION) as early:
        for number in range(150):
            channel.publish(sent[number], sent[:number])
            await asyncio.sleep(0)  # a socket holds few
        assert await shown(early, 150) == sent[:150]
        async with channel.subscribe(KEY, INVOCATION) as late:
            for number in range(150, 200):
                before = len(late._arrived)
                channel.publish(sent[number], sent[:number])
                await until(lambda before=before: len(late._arrived) > before)
            assert await shown(late, 200) == sent


async def test_who_comes_late_gets_the_whole_of_a_long_text(channel):
    """Of 2,000 chunks, 400 KB, it gets all before the next one, also where the model waits then."""
    words = [f"{n:<200}" for n in range(2000)]
    kept = KeptChunks()
    for number, word in enumerate(words):
        kept.add(chunk(word, number))
    *earlier, last = kept
    channel.publish(last, earlier, again=True)  # to nobody
    async with (
        channel.subscribe(KEY, INVOCATION) as first,
        channel.subscribe(KEY, INVOCATION) as second,
    ):
        for viewer in (first, second):
            found = []

            def is_whole(viewer=viewer, found=found):
                channel.publish(last, earlier, again=True)
                found += news(viewer.drain(), found)
                return found and found[-1].index >= len(words) - 1

            await until(is_whole)
            assert "".join(one.event.text for one in found) == "".join(words)
        channel.publish(chunk("end", len(words)), kept)
        rest = await until(lambda: news(first.drain(), found))
        assert rest == [chunk("end", len(words))]


async def shown(subscription, number):
    """Chunks as a reader shows them: each once, and behind the one before it."""
    found = []
    async with asyncio.timeout(PATIENCE):
        while len(found) < number:
            found += news([await subscription.get()], found)
    return found


def news(arrived, found):
    """What is behind the chunks that were found."""
    place, more = found[-1].index + 1 if found else 0, []
    for one in arrived:
        if one.first <= place and (rest := one.rest(place)):
            more.append(rest)
            place = one.index + 1
    return more
