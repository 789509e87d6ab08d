"""Committed events and chunks, merged."""

import asyncio
from collections import Counter
from contextlib import aclosing

import pytest
from hypothesis import given, settings, strategies as st

from durable_adk.client.streaming import ShownChunk, events_of, with_partials
from durable_adk.errors import ModelError
from durable_adk.partials import InProcessPartials, LiveText, Subscription
from durable_adk.partials.partial import encode
from durable_adk.sessions import StoredEvent
from tests.support.chunks import INVOCATION, KEY, chunk, event
from tests.support.examples import examples
from tests.support.waiting import PATIENCE

USER = StoredEvent(seq=1, event=event("hi", event_id="e-1.0"))


def stored(seq, text):
    """The committed event `e-1.<n>` with sequence number n + 1."""
    return StoredEvent(seq=seq, event=event(text, event_id=f"e-1.{seq - 1}"))


async def play(*script, after=0, shown=None):
    """What a viewer sees of committed events, chunks, lists of them that arrive at once, errors."""
    viewer = Subscription()

    async def feed():
        for step in script:
            if isinstance(step, StoredEvent):
                yield step
                continue
            if isinstance(step, Exception):
                raise step
            for partial in step if isinstance(step, list) else [step]:
                viewer.put(encode(partial))
            if not isinstance(step, list):
                for _ in range(20):  # more turns of the loop than it takes to show it
                    await asyncio.sleep(0)

    async with (
        asyncio.timeout(PATIENCE),
        aclosing(feed()) as committed,
        aclosing(events_of(with_partials(committed, viewer, after=after, shown=shown))) as events,
    ):
        return [event async for event in events]


def texts(events):
    return [("~" if event.partial else "") + event.text for event in events]


async def test_chunks_come_before_their_event():
    """All that have arrived are shown before the whole, marked with attempt and index."""
    events = await play(USER, chunk("a", 0), [chunk("b", 1), chunk("c", 2)], stored(2, "abc"))
    assert texts(events) == ["hi", "~a", "~b", "~c", "abc"]
    marks = [event.custom_metadata["partial"]["index"] for event in events if event.partial]
    assert marks == [0, 1, 2]


async def test_text_is_shown_while_it_is_written():
    """A chunk is not kept until the next committed event: it is there with no event after it."""
    channel = InProcessPartials()
    never = asyncio.Event()

    async def feed():
        yield USER
        await never.wait()

    async with (
        channel.subscribe(KEY, INVOCATION) as viewer,
        aclosing(feed()) as committed,
        aclosing(events_of(with_partials(committed, viewer))) as events,
        asyncio.timeout(PATIENCE),
    ):
        assert (await anext(events)).text == "hi"
        for index in range(3):
            channel.publish(chunk("a", index))
            assert (await anext(events)).partial


async def test_the_text_is_shown_once():
    """TRAP-5: chunks and whole, fed to a user interface, make the whole text."""
    live = LiveText()
    pieces = [chunk(word, n) for n, word in enumerate(["Good ", "day"])]
    for shown in await play(USER, *pieces, stored(2, "Good day")):
        live.feed(shown)
    assert live.text == "Good day"


async def test_late_chunks_are_dropped():
    """After the whole event no chunk of it is shown."""
    events = await play(USER, chunk("a", 0), stored(2, "ab"), chunk("b", 1), stored(3, "c"))
    assert texts(events) == ["hi", "~a", "ab", "c"]


async def test_a_retried_attempt_resets():
    """TRAP-6: a new attempt starts at 0, and what the old one still sends is not shown."""
    events = await play(
        USER,
        chunk("Hello wor", 0),
        chunk("Good ", 0, attempt=2),
        chunk("ld", 1, attempt=1),
        chunk("day", 1, attempt=2),
        stored(2, "Good day"),
    )
    assert texts(events) == ["hi", "~Hello wor", "~Good ", "~day", "Good day"]
    assert [e.custom_metadata["partial"]["attempt"] for e in events if e.partial] == [1, 2, 2]


@pytest.mark.parametrize(
    ("indices", "shown"),
    [([0, 2, 3], [0]), ([0, 0, 1], [0, 1]), ([0, 2, 0, 1, 2, 3], [0, 1, 2, 3])],
)
async def test_nothing_is_shown_behind_a_hole(indices, shown):
    """Of an attempt that lost a chunk the rest is left out until it is repeated; no repeat is."""
    events = await play(USER, *(chunk(f"<{n}>", n) for n in indices), stored(2, "whole"))
    assert texts(events) == ["hi", *(f"~<{n}>" for n in shown), "whole"]


async def test_a_reader_goes_on_after_the_chunk_it_has():
    """What it has shown of an attempt is left out; of a newer attempt it gets all."""
    shown = ShownChunk(event_id="e-1.1", attempt=1, index=1)
    chunks = [chunk(f"<{n}>", n) for n in range(4)]
    events = await play(
        *chunks, chunk("new", 0, attempt=2), stored(2, "whole"), after=1, shown=shown
    )
    assert texts(events) == ["~<2>", "~<3>", "~new", "whole"]


def merged(*words, index):
    """Several chunks as one; the index is that of the last."""
    lengths = [len(word) for word in words]
    return chunk("".join(words), index).model_copy(update={"lengths": lengths})


@pytest.mark.parametrize("index", [None, 0, 1, 2, 3])
async def test_a_reader_goes_on_amid_merged_chunks(index):
    """It gets what is behind the chunk that it has, wherever that is, and then the others."""
    words = ["ha", "ha", "", "ho", "end"]
    has = None if index is None else ShownChunk(event_id="e-1.1", attempt=1, index=index)
    script = [merged(*words[:4], index=3), chunk(words[4], 4), stored(2, "whole")]
    events = await play(*script, after=1, shown=has)
    rest = words if index is None else words[index + 1 :]
    assert "".join(event.text for event in events if event.partial) == "".join(rest)
    marks = [event.custom_metadata["partial"] for event in events if event.partial]
    assert [mark["index"] for mark in marks] == [3, 4][-len(marks) :]


async def test_merged_chunks_behind_a_hole_are_left_out():
    """Until the missing one comes, alone or merged; then each is shown once."""
    pieces = [chunk("a", 0), merged("c", "d", index=3), merged("b", "c", index=2), chunk("d", 3)]
    events = await play(USER, *pieces, stored(2, "abcd"))
    assert texts(events) == ["hi", "~a", "~bc", "~d", "abcd"]


async def test_who_comes_late_gets_no_headless_text():
    """A viewer that comes amid an event sees the next attempt or the whole."""
    late = [chunk("rld", 5), chunk("!", 6), chunk("Again", 0, attempt=2)]
    assert texts(await play(USER, *late, stored(2, "w"))) == ["hi", "~Again", "w"]


async def test_a_chunk_waits_for_what_its_step_has_read():
    """A chunk overtakes the committed event before it, which is noticed by polling."""
    early = chunk("an", 0, event_id="e-1.2", revision=2)
    events = await play(USER, early, stored(2, "question"), stored(3, "answer"))
    assert texts(events) == ["hi", "question", "~an", "answer"]


async def test_the_cursor_counts_as_read():
    """A viewer that attaches behind the user's event gets the chunks without another event."""

    async def feed():
        await asyncio.Event().wait()
        yield USER

    viewer = Subscription()
    async with (
        asyncio.timeout(PATIENCE),
        aclosing(feed()) as committed,
        aclosing(events_of(with_partials(committed, viewer, after=1))) as events,
    ):
        viewer.put(encode(chunk("a", revision=1)))
        assert (await anext(events)).text == "a"


async def test_a_revision_of_another_invocation_holds_nothing_back():
    """The feed need not have the event a step began at: the next one behind it is enough."""
    events = await play(USER, chunk("a", event_id="e-1.4", revision=3), stored(5, "ab"))
    assert texts(events) == ["hi", "~a", "ab"]


async def test_events_of_parallel_agents_do_not_disturb_each_other():
    """A hole in one text is none in the other."""
    left = [chunk("l", n, event_id="e-1.1") for n in (0, 2)]
    right = [chunk("r", n, event_id="e-1.2") for n in (0, 1)]
    pieces = [left[0], right[0], left[1], right[1]]
    events = await play(USER, *pieces, stored(2, "L"), stored(3, "R"))
    assert texts(events) == ["hi", "~l", "~r", "~r", "L", "R"]


async def test_an_error_of_the_feed_comes_through():
    """The feed's own events come first, then its exception, unchanged."""
    seen = []
    error = ModelError("no")

    async def feed():
        yield USER
        raise error

    async def watch():
        async with aclosing(feed()) as committed:
            async for shown in events_of(with_partials(committed, Subscription())):
                seen.append(shown)  # noqa: PERF401 - to be kept when the feed fails

    with pytest.raises(ModelError) as caught:
        await watch()
    assert texts(seen) == ["hi"]
    assert caught.value is error


@pytest.mark.parametrize("way", ["aclose", "cancel"])
async def test_leaving_leaves_no_task_behind(way):
    """DUR-13: the feed is cancelled, and nothing runs on."""
    closed, shown, before = asyncio.Event(), asyncio.Event(), asyncio.all_tasks()

    async def feed():
        try:
            yield USER
            await asyncio.Event().wait()
        finally:
            closed.set()

    async def watch(committed):
        async with aclosing(events_of(with_partials(committed, Subscription()))) as events:
            async for _ in events:
                shown.set()
                if way == "aclose":
                    return

    async with aclosing(feed()) as committed:
        task = asyncio.create_task(watch(committed))
        await shown.wait()
        if way == "cancel":
            task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        assert task.cancelled() == (way == "cancel")
    assert closed.is_set()
    assert asyncio.all_tasks() == before


NAMES = ["e-1.1", "e-1.2", "e-1.3"]
CHUNKS = st.builds(
    chunk,
    st.just("x"),
    st.integers(0, 3),
    event_id=st.sampled_from(NAMES),
    attempt=st.integers(1, 2),
    revision=st.integers(1, 4),
)


@settings(max_examples=examples(200), deadline=None)
@given(st.lists(st.one_of(st.none(), st.lists(CHUNKS, max_size=6)), max_size=8))
async def test_whatever_arrives_every_text_is_whole_and_no_event_is_lost(noise):
    """Chunks in any order add events; they take away, reorder or repeat none (TRAP-45)."""
    numbers = iter(range(2, 20))
    script = [USER, *(stored(next(numbers), "t") if step is None else step for step in noise)]
    shown = await play(*script)
    committed = [step.event for step in script if isinstance(step, StoredEvent)]
    assert [item for item in shown if not item.partial] == committed
    places = {name: [n for n, item in enumerate(shown) if item.id == name] for name in NAMES}
    for places_of_one in places.values():
        of_one = [shown[n] for n in places_of_one]
        assert all(item.partial for item in of_one[:-1])
        marks = [item.custom_metadata["partial"] for item in of_one if item.partial]
        assert_gapless([(mark["attempt"], mark["index"]) for mark in marks])


def assert_gapless(marks):
    """Attempts grow, and within each the indices are 0, 1, 2, ..."""
    attempts = sorted({attempt for attempt, _ in marks})
    counts = Counter(attempt for attempt, _ in marks)
    assert marks == [(attempt, index) for attempt in attempts for index in range(counts[attempt])]
