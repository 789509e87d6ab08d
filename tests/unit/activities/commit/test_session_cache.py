"""The events that a worker knows of are the session's, and are read once."""

from typing import Any

from durable_adk.activities.commit.session_cache import SessionCache
from durable_adk.events import Event
from durable_adk.sessions import InMemorySessionService, SessionKey
from tests.support.histories import call, event

KEY = SessionKey("app", "u", "s")


class Session:
    """A stored session, the cache of a worker, and what the worker has read."""

    def __init__(self) -> None:
        self.sessions = InMemorySessionService()
        self.cache = SessionCache()
        self.reads: list[int] = []
        self._read_events = self.sessions.read_events
        self.sessions.read_events = self._counted  # pyright: ignore[reportAttributeAccessIssue]

    async def make(self) -> None:
        """Make the session."""
        app_name, user_id, session_id = KEY
        await self.sessions.create_session(
            app_name=app_name, user_id=user_id, session_id=session_id
        )

    async def make_anew(self) -> None:
        """Delete the session, and make one of the same name."""
        app_name, user_id, session_id = KEY
        await self.sessions.delete_session(
            app_name=app_name, user_id=user_id, session_id=session_id
        )
        await self.make()

    async def append(
        self, *names: str, invocation_id: str = "i", timestamp: float = 0.0
    ) -> list[Event]:
        """Append events, as another process does; 0: they have the time at which they are."""
        options = {"invocation_id": invocation_id, "author": "a", "timestamp": timestamp}
        events = [Event(id=name, **options) for name in names]
        return [await self._append(event) for event in events]

    async def append_calls(self, *ids: str, invocation_id: str) -> None:
        """Append an event with function calls."""
        await self._append(event("a", *map(call, ids), invocation_id=invocation_id))

    async def _append(self, event: Event) -> Event:
        app_name, user_id, session_id = KEY
        session = await self.sessions.get_session(
            app_name=app_name, user_id=user_id, session_id=session_id
        )
        assert session is not None
        return await self.sessions.append_event(session, event)

    async def read(self, revision: int, invocation_id: str = "i") -> str:
        """The ids of the events that a step knows of, those of its invocation in capitals."""
        known = await self.cache.read(self.sessions, KEY, revision, invocation_id)
        names = [event.id for event in known.events]
        return " ".join([*names[: known.start], *(name.upper() for name in names[known.start :])])

    async def _counted(self, *args: Any, **options: Any) -> Any:
        found = await self._read_events(*args, **options)
        self.reads.append(len(found))
        return found


async def session(*names: str) -> Session:
    """A session with events of one invocation."""
    made = Session()
    await made.make()
    await made.append(*names)
    return made


async def test_only_what_is_missing_is_read() -> None:
    """D3: a step reads the tail that its worker lacks, and none if it has committed it itself."""
    one = await session("a", "b")
    assert await one.read(2) == "A B"
    await one.append("c")
    assert await one.read(3) == "A B C"
    (d,) = await one.append("d")
    one.cache.add(KEY, 4, d)
    assert await one.read(4) == "A B C D"
    assert one.reads == [2, 1]


async def test_a_step_sees_as_many_events_as_its_run_knows() -> None:
    """D3: a step that is repeated finds the session as it was, whatever came since."""
    one = await session("a", "b", "c")
    assert await one.read(3) == "A B C"
    assert await one.read(2) == "A B"
    assert await one.read(0) == ""
    assert one.reads == [3]


async def test_a_list_that_was_given_away_does_not_grow() -> None:
    """TRAP-8: a callback that keeps its session sees no later event in it."""
    one = await session("a")
    given = (await one.cache.read(one.sessions, KEY, 1, "i")).events
    given.append(Event(id="mine", invocation_id="i", author="a"))
    await one.append("b")
    assert await one.read(2) == "A B"
    assert [event.id for event in given] == ["a", "mine"]


async def test_calls_are_known_whatever_user_code_does_to_its_list() -> None:
    """STA-17, F15: a callback that shortens its session's events makes no id free again."""
    one = Session()
    await one.make()
    await one.append_calls("c1", invocation_id="i")
    await one.append_calls("c2", invocation_id="i")
    await one.append_calls("c3", invocation_id="i")
    known = await one.cache.read(one.sessions, KEY, 2, "i")
    del known.events[:]
    assert [known.has_call(name) for name in ("c1", "c2", "c3")] == [True, True, False]
    known = await one.cache.read(one.sessions, KEY, 2, "i")
    known.events.extend(known.events)
    assert not known.has_call("c3")


async def test_the_first_event_of_an_invocation_is_found() -> None:
    """RUN-3: what the user said in this invocation, and not in one before it."""
    one = await session("a", "b")
    await one.append("c", "d", invocation_id="j")
    await one.append("e")
    assert await one.read(5, "i") == "A B C D E"
    assert await one.read(5, "j") == "a b C D E"
    assert await one.read(2, "j") == "a b"
    assert await one.read(5, "another") == "a b c d e"


async def test_an_event_that_is_told_of_twice_is_known_once() -> None:
    """I2: a commit that is repeated tells its event again."""
    one = await session("a")
    assert await one.read(1) == "A"
    (b,) = await one.append("b")
    (c,) = await one.append("c")
    one.cache.add(KEY, 3, c)  # not the next one
    one.cache.add(KEY, 2, b)
    one.cache.add(KEY, 2, b)
    assert await one.read(3) == "A B C"
    assert one.reads == [1, 1]


async def test_a_session_made_anew_is_read_anew() -> None:
    """SSN-9: also under the ids that the events had before."""
    one = await session("a", "b")
    assert await one.read(2) == "A B"
    assert await one.read(2, "another") == "a b"
    assert one.reads == [2, 1]
    await one.make_anew()
    await one.append("a", "b", invocation_id="j")
    assert await one.read(2, "j") == "A B"
    known = await one.cache.read(one.sessions, KEY, 2, "j")
    assert {event.invocation_id for event in known.events} == {"j"}


async def test_a_commit_makes_nobody_sure_of_what_came_before_it() -> None:
    """SSN-9: the session was made anew elsewhere, and a commit is the first sign of it."""
    one = await session("a", "b")
    assert await one.read(2) == "A B"
    await one.make_anew()
    await one.append("x", "y", invocation_id="j")
    (z,) = await one.append("z", invocation_id="j")
    one.cache.add(KEY, 3, z)
    assert await one.read(3, "j") == "X Y Z"


async def test_the_calls_of_an_invocation_are_known_by_their_ids() -> None:
    """F15: those of other invocations are none, nor are those that a repeated step has made."""
    one = Session()
    await one.make()
    await one.append_calls("c1", invocation_id="i")
    await one.append_calls("c2", "c3", invocation_id="j")
    await one.append_calls("c1", invocation_id="j")
    known = [await one.cache.read(one.sessions, KEY, revision, "j") for revision in range(1, 4)]
    assert [one.has_call("c1") for one in known] == [False, False, True]
    assert [one.has_call("c2") and one.has_call("c3") for one in known] == [False, True, True]


async def test_a_session_that_was_written_anew_is_read_anew() -> None:
    """TRAP-8: also where the last event is as it was, and one before it is not."""
    stored = Session()
    await stored.make()
    await stored.append("first", "last", timestamp=1.0)
    assert await stored.read(2) == "FIRST LAST"
    await stored.make_anew()
    await stored.append("edited", "last", timestamp=1.0)
    assert await stored.read(2, "j") == "edited last"
