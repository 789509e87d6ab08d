"""The events that a worker keeps of sessions are bounded in bytes, and still the session's."""

import gc
import tracemalloc
from collections.abc import Callable

import pytest
from google.genai import types

from durable_adk.activities.commit.session_cache import SessionCache, memory_of
from durable_adk.activities.dependencies import Dependencies
from durable_adk.apps import AppRegistry
from durable_adk.conversation.contents import KeptContents, build_contents
from durable_adk.events import Event, EventActions
from durable_adk.sessions import InMemorySessionService, SessionKey
from durable_adk.sessions.log.entry import Entry, decode_event
from durable_adk.settings import Limits
from tests.support.histories import call, event

ID = "e-6f1c0a52-5d3b-4c0e-9d57-0f6f0c9a6b1e"
USAGE = types.GenerateContentResponseUsageMetadata(prompt_token_count=99, total_token_count=123)
ROWS = [{"id": n, "price": n * 10.5, "sold": True, "note": None} for n in range(500)]
KB = "word " * 200


def _response(value: object) -> types.Part:
    return types.Part(
        function_response=types.FunctionResponse(id="c", name="look", response={"found": value})
    )


def _chain(depth: int) -> object:
    return {"next": _chain(depth - 1), "all": [depth]} if depth else "end"


def _tree(depth: int) -> object:
    return {f"{depth}-{n}": _tree(depth - 1) for n in range(3)} if depth else "leaf"


def _lists(depth: int) -> object:
    return [_lists(depth - 1) for _ in range(3)] if depth else []


EVENTS: dict[str, Callable[[], Event]] = {
    "a word": lambda: event("a", types.Part(text="hi"), invocation_id=ID),
    "a text of 1 KB": lambda: event("a", types.Part(text=KB), invocation_id=ID),
    "a text of 100 KB": lambda: event("a", types.Part(text=KB * 100), invocation_id=ID),
    "a Chinese text": lambda: event("a", types.Part(text="中文" * 5000), invocation_id=ID),
    "a text with one emoji": lambda: event("a", types.Part(text=KB * 9 + "😀"), invocation_id=ID),
    "a call": lambda: event("a", call("c1"), invocation_id=ID, usage_metadata=USAGE),
    "eight calls": lambda: event("a", *(call(f"c{n}") for n in range(8)), invocation_id=ID),
    "a result": lambda: event("a", _response("sunny"), invocation_id=ID),
    "a table": lambda: event("a", _response(ROWS), invocation_id=ID),
    "a chain": lambda: event("a", _response(_chain(60)), invocation_id=ID),
    "a tree": lambda: event("a", _response(_tree(7)), invocation_id=ID),
    "nested lists": lambda: event("a", _response(_lists(8)), invocation_id=ID),
    "empty objects": lambda: event("a", _response([{}] * 1000), invocation_id=ID),
    "small objects": lambda: event(
        "a", _response([{"n": n} for n in range(1000)]), invocation_id=ID
    ),
    "numbers": lambda: event("a", _response(list(range(1000, 6000))), invocation_id=ID),
    "digits": lambda: event("a", _response([n % 10 for n in range(5000)]), invocation_id=ID),
    "words": lambda: event("a", _response([f"w{n}" for n in range(3000)]), invocation_id=ID),
    "state": lambda: event(
        "a", actions=EventActions(state_delta={"tree": _tree(5)}), invocation_id=ID
    ),
    "an image": lambda: event(
        "a",
        types.Part(inline_data=types.Blob(data=b"x" * 50_000, mime_type="image/png")),
        invocation_id=ID,
    ),
}


@pytest.mark.parametrize("shape", EVENTS)
def test_the_estimate_is_of_the_memory_that_events_take(shape: str) -> None:
    """I22: within a fifth below and two fifths above, however deeply an event is nested."""
    body = Entry.of(EVENTS[shape]().model_copy(update={"id": f"{ID}.1"})).body
    decode_event(body)  # what is made once for all events is not counted
    gc.collect()
    tracemalloc.start()
    kept = [decode_event(body) for _ in range(20)]
    gc.collect()
    each = tracemalloc.get_traced_memory()[0] / len(kept)
    tracemalloc.stop()
    assert each * 0.8 <= memory_of(kept[0]) <= each * 1.4


class Sessions(InMemorySessionService):
    """A store that counts the events that are read from it."""

    def __init__(self) -> None:
        super().__init__()
        self.read = 0

    async def read_events(self, *args: object, **options: object) -> list[object]:  # pyright: ignore[reportIncompatibleMethodOverride]
        """See base class."""
        found = await super().read_events(*args, **options)  # pyright: ignore[reportArgumentType]
        self.read += len(found)
        return list(found)


def key(name: str) -> SessionKey:
    """A session."""
    return SessionKey("app", "u", name)


async def stored(sessions: Sessions, name: str, number: int, text: str = KB) -> list[Event]:
    """Store so many events of a session's one invocation."""
    made = [
        Event(
            id=f"{name}.{n}",
            invocation_id=name,
            author="a",
            timestamp=1.0,
            content=types.Content(role="model", parts=[types.Part(text=text)]),
        )
        for n in range(number)
    ]
    await sessions.open_invocation(
        key(name),
        invocation_id=name,
        lease_owner="local:1",
        user_event=made[0],
        create_session=True,
    )
    for one in made[1:]:
        await sessions.commit_event(key(name), one, invocation_id=name, epoch=1)
    return made


async def step(sessions: Sessions, cache: SessionCache, name: str, revision: int) -> int:
    """How many events a step of a session had to read; it has all that it may know of."""
    before = sessions.read
    known = await cache.read(sessions, key(name), revision, name)
    assert [one.id for one in known.events] == [f"{name}.{n}" for n in range(revision)]
    return sessions.read - before


EACH = 5_100
"""A little less than each of the events above takes."""


async def test_the_least_recently_used_session_makes_room() -> None:
    """I22: and no other; what is left out is read again, and is the same."""
    sessions, cache = Sessions(), SessionCache(max_bytes=int(EACH * 25))
    for name in "abc":
        await stored(sessions, name, 10)
    assert [await step(sessions, cache, name, 10) for name in "abab"] == [10, 10, 0, 0]
    assert await step(sessions, cache, "a", 10) == 0
    assert await step(sessions, cache, "c", 10) == 10
    assert [await step(sessions, cache, name, 10) for name in "ac"] == [0, 0]
    assert await step(sessions, cache, "b", 10) == 10
    assert cache.bytes <= EACH * 25


async def test_a_session_that_is_too_large_is_not_kept() -> None:
    """Nor does it drive out those that fit: it is read at each step."""
    sessions, cache = Sessions(), SessionCache(max_bytes=int(EACH * 25))
    await stored(sessions, "small", 5)
    await stored(sessions, "large", 40)
    assert await step(sessions, cache, "small", 5) == 5
    assert [await step(sessions, cache, "large", 40) for _ in range(2)] == [40, 40]
    assert await step(sessions, cache, "small", 5) == 0


async def test_a_session_that_grows_makes_room_for_itself() -> None:
    """By its own commits as well: first others go, then, when it is too large, it goes itself."""
    sessions, cache = Sessions(), SessionCache(max_bytes=int(EACH * 25))
    await stored(sessions, "old", 10)
    await stored(sessions, "new", 5)
    events = await stored(sessions, "grows", 40)
    for name, revision in (("old", 10), ("grows", 1), ("new", 5)):
        await step(sessions, cache, name, revision)
    for seq in range(2, 13):
        cache.add(key("grows"), seq, events[seq - 1])
    assert await step(sessions, cache, "grows", 12) == 0
    assert await step(sessions, cache, "new", 5) == 0
    assert await step(sessions, cache, "old", 10) == 10  # and now `grows` has used it less recently
    await step(sessions, cache, "grows", 12)
    for seq in range(13, 41):
        cache.add(key("grows"), seq, events[seq - 1])
        assert cache.bytes <= EACH * 25
    assert await step(sessions, cache, "grows", 40) == 40
    cache.add(key("grows"), 41, events[0])
    assert cache.bytes <= EACH * 25


async def test_the_bound_is_a_limit_of_the_worker() -> None:
    """I22: 0 keeps nothing."""
    sessions = Sessions()
    limits = Limits(session_cache_bytes=0)
    deps = Dependencies(registry=AppRegistry([]), sessions=sessions, limits=limits)
    await stored(sessions, "a", 3)
    assert [await step(sessions, deps.cache, "a", 3) for _ in range(2)] == [3, 3]
    deps = Dependencies(registry=AppRegistry([]), sessions=sessions)
    assert [await step(sessions, deps.cache, "a", 3) for _ in range(2)] == [3, 0]


async def test_the_size_is_that_of_what_is_stored(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cheap: nothing that was read is written as JSON again to learn how long it is."""
    sessions, cache = Sessions(), SessionCache()
    await stored(sessions, "a", 3)
    monkeypatch.setattr(Event, "to_json", lambda _self: pytest.fail("it is written again"))
    assert await step(sessions, cache, "a", 3) == 3
    assert cache.bytes > 2 * EACH


async def render(sessions: Sessions, cache: SessionCache, name: str, revision: int) -> None:
    """Build a prompt, as a step does."""
    known = await cache.read(sessions, key(name), revision, name)
    build_contents(known.events, agent_name="b", branch=None, kept=known.contents)


async def test_what_is_rendered_of_a_session_counts_and_goes_with_it() -> None:
    """I22: it is dropped before the events are, and kept from invocation to invocation."""
    sessions, cache = Sessions(), SessionCache(max_bytes=int(EACH * 25))
    await stored(sessions, "a", 10)
    await step(sessions, cache, "a", 10)
    alone = cache.bytes
    await render(sessions, cache, "a", 10)
    rendered = cache.bytes
    assert rendered > alone + 10 * len(KB)  # quoted, as another agent's
    await cache.read(sessions, key("a"), 10, "another invocation")
    assert cache.bytes == rendered
    await stored(sessions, "large", 20)
    await step(sessions, cache, "large", 20)
    await render(sessions, cache, "large", 20)
    assert await step(sessions, cache, "large", 20) == 0  # without what was rendered of it
    assert cache.bytes <= EACH * 25


def test_the_size_of_what_is_rendered_is_that_of_its_memory() -> None:
    """I22: what the events have is not counted twice."""
    for agent_name in ("a", "b"):
        texts = [event("a", types.Part(text=KB), invocation_id=ID) for _ in range(100)]
        calls = [
            event("a", call(f"adk-{n}"), event_answer(n), invocation_id=ID) for n in range(100)
        ]
        build_contents(texts + calls, agent_name=agent_name, branch=None)
        gc.collect()
        tracemalloc.start()
        kept = KeptContents()
        build_contents(texts + calls, agent_name=agent_name, branch=None, kept=kept)
        gc.collect()
        taken = tracemalloc.get_traced_memory()[0]
        tracemalloc.stop()
        assert taken * 0.7 <= kept.bytes <= taken * 1.4


def event_answer(number: int) -> types.Part:
    """The response to a call."""
    response = types.FunctionResponse(id=f"adk-{number}", name="tool", response={"v": number})
    return types.Part(function_response=response)
