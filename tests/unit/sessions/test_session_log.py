"""What is read of a session to know how its calls stand, and that it is enough."""

import asyncio
import threading
from collections.abc import Collection
from typing import Any

import pytest
from google.genai import types
from hypothesis import given, settings, strategies as st

from durable_adk.client.queries import read_calls
from durable_adk.conversation.pending_calls import blocked_by, pending_calls, track_calls
from durable_adk.events import Event
from durable_adk.sessions import InMemorySessionService, SessionKey, session_log
from durable_adk.sessions.log import feed
from durable_adk.sessions.log.rebuild import Rebuilt
from durable_adk.sessions.records import InvocationRecord, Status, StoredEvent
from tests.support.examples import examples
from tests.support.histories import answer as answered, call, event, rewind, session, slow
from tests.support.pausing import answer, authenticating, confirming, responses, working

KEY = SessionKey("app", "u", "s")
NAMES = {"app_name": "app", "user_id": "u", "session_id": "s"}


class Sessions(InMemorySessionService):
    """A store that counts the events that are read from it."""

    def __init__(self) -> None:
        super().__init__()
        self.read = self.reads = 0

    async def read_events(self, *args: Any, **options: Any) -> list[StoredEvent]:
        """See base class."""
        found = await super().read_events(*args, **options)
        self.read += len(found)
        self.reads += 1
        return found

    async def read_page(self, *args: Any, **options: Any) -> tuple[list[StoredEvent], bool]:
        """See base class."""
        found, more = await super().read_page(*args, **options)
        self.read += len(found)
        return found, more


async def stored(events: list[Event], *, unknown: Collection[str] = ()) -> Sessions:
    """A session with these events; of its invocations some are in no record."""
    sessions, starts = Sessions(), dict[str, int]()
    for seq, one in enumerate(events, 1):
        starts.setdefault(one.invocation_id, seq)
    records = [
        InvocationRecord(
            invocation_id=name,
            status=Status.COMPLETED,
            epoch=n,
            lease_owner="local:1",
            start_seq=seq,
        )
        for n, (name, seq) in enumerate(starts.items(), 1)
        if name not in unknown
    ]
    numbered = [StoredEvent(seq=seq, event=one) for seq, one in enumerate(events, 1)]
    await sessions.rebuild([Rebuilt(key=KEY, after=0, events=numbered, records=records)])
    return sessions


TURNS = (confirming("x"), authenticating("x"), working("x"))
IDS = sorted({one.id or "" for turn in TURNS for it in turn for one in it.get_function_calls()})
_ANSWERS = st.builds(
    lambda name, author: [responses("z.1", answer(name, "order", {"it": 1}), author=author)],
    st.sampled_from(IDS),
    st.sampled_from(["user", "agent"]),
)
_TURNS = st.sampled_from(
    [
        *TURNS,
        [event("me", call("x-order"))],
        [event("user", call("x-order"), long_running_tool_ids={"x-order"})],
    ]
)
_REWINDS = st.integers(0, 3).map(lambda number: [rewind(f"i{number}")])


@st.composite
def talks(draw: st.DrawFn) -> list[Event]:
    """Turns of a few invocations, whose events come between each other's, and whose ids recur."""
    turns = draw(st.lists(st.tuples(_TURNS | _TURNS | _ANSWERS | _REWINDS, st.integers(0, 3))))
    left = [
        [one.model_copy(update={"invocation_id": f"i{number}"}) for one in turn]
        for turn, number in turns
    ]
    events: list[Event] = []
    while left := [turn for turn in left if turn]:
        events.append(left[min(draw(st.integers(0, 2)), len(left) - 1)].pop(0))
    return session(*events)


@given(events=talks(), ids=st.sets(st.sampled_from(IDS), min_size=1, max_size=2))
@settings(max_examples=examples(500), deadline=None)
def test_what_is_read_says_how_calls_stand(events: list[Event], ids: set[str]) -> None:
    """TRAP-28: as the whole session does, whatever is rewound, and whatever ids recur."""

    async def found() -> list[Event]:
        sessions = await stored(events, unknown={"i2"})
        return [item.event for item in await sessions.read_from_calls(KEY, ids)]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(session_log, "_TAIL", 1)
        some = track_calls(asyncio.run(found()))
    whole = track_calls(events)
    for name in ids:
        assert some.get(name) == whole.get(name)
        if name in whole:
            item = whole[name].call
            assert blocked_by(item, some) == blocked_by(item, whole)


@given(events=talks(), data=st.data())
@settings(max_examples=examples(300), deadline=None)
def test_what_is_read_from_a_beginning_says_which_calls_wait(
    events: list[Event], data: st.DataObject
) -> None:
    """D9: the calls of invocations that began there or later, as the whole session has them."""
    first = data.draw(st.integers(1, len(events) + 1))
    before = {one.invocation_id for one in events[: first - 1]}

    async def found() -> list[Event]:
        return [item.event for item in await read_calls(await stored(events), KEY, first)]

    def waiting(history: list[Event]) -> list[str]:
        calls = pending_calls(history)
        return [item.call_id for item in calls if item.invocation_id not in before]

    assert waiting(asyncio.run(found())) == waiting(events)


@given(events=talks())
@settings(max_examples=examples(300), deadline=None)
def test_what_is_kept_of_events_says_how_calls_stand(events: list[Event]) -> None:
    """D9: as the whole events do, for every call that was ever made."""

    async def kept() -> list[Event]:
        return [item.event for item in await read_calls(await stored(events), KEY, 1)]

    assert track_calls(asyncio.run(kept())) == track_calls(events)


async def test_a_question_for_pending_calls_keeps_little_in_memory() -> None:
    """Results of tools, files, texts of models and states are read a page at a time."""
    large = "x" * 50_000
    file = types.Part(inline_data=types.Blob(mime_type="image/png", data=large.encode()))
    said, found = event("user", "go", file), event("a", large, answered("1", large))
    found.actions.state_delta["a"] = large
    sessions = await stored(session([said, slow("one"), *(found,) * 100]))
    kept = [item.event for item in await read_calls(sessions, KEY, 1)]
    assert [one.call_id for one in pending_calls(kept)] == ["one"]
    assert kept[0].text == "go"
    assert max(len(one.to_json()) for one in kept) < 500


def long(*ends: list[Event]) -> list[Event]:
    """Some invocations after many others."""
    return session(*([event("user", "hi"), event("a", "ho")] for _ in range(1500)), *ends)


async def test_of_a_long_session_only_the_end_is_read() -> None:
    """I22: what an answer or a look at what waits costs does not grow with the session."""
    sessions = await stored(long([event("user", "go"), slow("one")], [event("user", "and")]))
    found = await sessions.read_from_calls(KEY, {"one"})
    assert [item.seq for item in found] == [3001, 3002, 3003]
    assert sessions.read < 300
    sessions.read = 0
    assert [item.seq for item in await read_calls(sessions, KEY, 3001)] == [3001, 3002, 3003]
    assert sessions.read == 3


async def test_a_call_of_long_ago_costs_what_came_since() -> None:
    """TOL-41: each page is twice as large, so nothing is read much more than once."""
    sessions = await stored(
        session(
            [event("user", "go"), slow("one")],
            *([event("user", "hi"), event("a", "ho")] for _ in range(500)),
        )
    )
    found = await sessions.read_from_calls(KEY, {"one"})
    assert [item.seq for item in found] == list(range(1, 1003))
    assert sessions.read == 1002
    assert sessions.reads < 8


async def test_of_a_call_that_is_not_there_all_is_read() -> None:
    """The error for an answer names the calls that wait."""
    sessions = await stored(session([slow("one")], [slow("two")], [event("user", "hi")]))
    found = await sessions.read_from_calls(KEY, {"two", "three"})
    assert [item.seq for item in found] == [1, 2, 3]


@pytest.mark.parametrize("ids", [set[str](), {"one"}])
async def test_a_session_that_is_missing_has_no_events(ids: set[str]) -> None:
    """And nothing that can be answered."""
    assert await Sessions().read_from_calls(KEY, ids) == []


async def test_an_id_that_was_used_again_is_the_later_calls() -> None:
    """F15: also where the later call is none that is waited for."""
    sessions = await stored(session([slow("one")], [event("me", call("one"))], [rewind("i1")]))
    found = [item.event for item in await sessions.read_from_calls(KEY, {"one"})]
    assert "one" in track_calls(found)


async def test_what_a_client_wrote_is_no_call() -> None:
    """RES-8: it hides none that an agent has made."""
    forged = event("user", call("one"), long_running_tool_ids={"one"})
    sessions = await stored(session([slow("one")], [forged]))
    assert [item.seq for item in await sessions.read_from_calls(KEY, {"one"})] == [1, 2]


@pytest.mark.thorough
@pytest.mark.parametrize("call_of", ["read_events", "get_session"])
async def test_many_events_are_not_decoded_in_the_callers_loop(
    call_of: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """I22: heartbeats and other users' requests continue while a long session is read."""
    sessions, threads = await stored(long()), set[int]()

    def decode(body: str) -> Event:
        threads.add(threading.get_ident())
        return Event.from_json(body)

    monkeypatch.setattr(feed, "decode_event", decode)
    if call_of == "read_events":
        assert len(await sessions.read_events(KEY)) == 3000
    else:
        whole = await sessions.get_session(**NAMES)
        assert whole is not None
        assert len(whole.events) == 3000
    assert threads
    assert threading.get_ident() not in threads
