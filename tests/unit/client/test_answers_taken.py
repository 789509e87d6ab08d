"""What a client learns of its answer while the outcome is unknown."""

from collections.abc import Callable, Coroutine
from typing import Any

import pytest
from temporalio.service import RPCError, RPCStatusCode

from durable_adk.client import temporal_backend
from durable_adk.client.temporal_backend import TemporalBackend, _Wait
from durable_adk.errors import StoreUnavailableError, TemporalUnavailableError
from durable_adk.events.event import Event
from durable_adk.sessions import InMemorySessionService, SessionKey
from durable_adk.sessions.records import StoredEvent
from durable_adk.wire.messages import InvocationAnswer, answer_event
from tests.support.waiting import PATIENCE

KEY = SessionKey("app", "u", "s")


class Handle:
    """Of a workflow that ends, and whose queries are not always answered.

    Args:
        said: What its worker says of the answer; None: nothing.
        open_for: For how many looks it is open.
        away_for: For how many looks Temporal is away.
    """

    key, invocation_id = KEY, "i"

    def __init__(self, *said: bool | None, open_for: int = 0, away_for: int = 0) -> None:
        self._said = list(said)
        self._open_for = open_for
        self._away_for = away_for

    async def took(self, answer: InvocationAnswer) -> bool:
        """What comes next; the last one again and again."""
        assert answer.answer_id == "a"
        said = self._said.pop(0) if len(self._said) > 1 else self._said[0]
        if said is None:
            raise TemporalUnavailableError("Timeout expired")
        return said

    async def is_open(self) -> bool:
        """For some looks."""
        self._away_for -= 1
        if self._away_for >= 0:
            raise RPCError("tcp connect error", RPCStatusCode.UNAVAILABLE, b"")
        self._open_for -= 1
        return self._open_for >= 0


class Workers:
    """There is one."""

    async def check_worker(self, invocation_id: str, *, opened: bool) -> None:
        """See `Invocations.check_worker`."""
        assert invocation_id == "i"


class Store(InMemorySessionService):
    """Holds the events of these ids."""

    def __init__(self, *ids: str, away: bool = False) -> None:
        super().__init__()
        self._ids = ids
        self._away = away

    async def find_event(self, key: SessionKey, event_id: str) -> StoredEvent | None:
        """See base class."""
        assert key == KEY
        if self._away:
            raise StoreUnavailableError
        if event_id not in self._ids:
            return None
        return StoredEvent(seq=1, event=Event(id=event_id, invocation_id="i", author="user"))


Taken = Callable[..., Coroutine[Any, Any, bool]]


@pytest.fixture
def taken(monkeypatch: pytest.MonkeyPatch) -> Taken:
    """`TemporalBackend._is_accepted`, with little patience."""
    monkeypatch.setattr(temporal_backend, "WORKER_CHECK", 0.05)
    monkeypatch.setattr(temporal_backend, "SERVER_TIMEOUT", 10 * PATIENCE)

    def ask(handle: Handle, store: Store | None = None) -> Coroutine[Any, Any, bool]:
        made: Any = TemporalBackend(Workers(), store or Store())  # pyright: ignore[reportArgumentType]
        return made._is_accepted(handle, InvocationAnswer(answer_id="a"), _Wait())

    return ask


async def test_silence_is_not_a_no(taken: Taken) -> None:
    """I12: an answer that a run has taken before it ended is not said to be lost."""
    nothing = [None] * 20
    assert await taken(Handle(*nothing, True)) is True


async def test_a_no_before_the_end_is_asked_again(taken: Taken) -> None:
    """It may be taken at the last moment; what counts is said after the end."""
    noes = [False] * 2
    assert await taken(Handle(*noes, None, True, open_for=1)) is True
    assert await taken(Handle(False)) is False


@pytest.mark.parametrize("store", [Store("i.0", "i.1"), Store("i.answer.a", away=True)])
async def test_silence_has_an_end(
    taken: Taken, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """I11: nothing waits for ever, and no unknown outcome is reported as known; the reason is."""
    monkeypatch.setattr(temporal_backend, "SERVER_TIMEOUT", 0.5)
    with pytest.raises(TemporalUnavailableError, match="had accepted it") as caught:
        await taken(Handle(None), store)
    assert str(caught.value.__cause__) == "Timeout expired"


async def test_an_answer_outlasts_a_temporal_that_is_away(
    taken: Taken, monkeypatch: pytest.MonkeyPatch
) -> None:
    """I12, F6: for as long as a run does; then the error is ours, which streams tell."""
    monkeypatch.setattr(temporal_backend, "MAX_ANSWER_POLL", 0.05)
    silence: list[None] = [None] * 8
    assert await taken(Handle(*silence, True, away_for=2, open_for=9)) is True
    monkeypatch.setattr(temporal_backend, "SERVER_TIMEOUT", 0.5)
    with pytest.raises(TemporalUnavailableError, match=r"has not answered .* tcp"):
        await taken(Handle(None, away_for=1000))


async def test_the_session_says_what_nobody_else_can(taken: Taken) -> None:
    """I12: a stored answer was taken, also when no worker is left that could replay the run."""
    assert await taken(Handle(None), Store("i.0", answer_event("i", "a"))) is True


async def test_an_answer_that_waits_is_asked_for_less_and_less(taken: Taken) -> None:
    """I22: a session that is busy for long costs its worker a query a second, and not fifty."""
    asked = 0

    class Counted(Handle):
        async def took(self, answer_id: str) -> bool:
            nonlocal asked
            asked += 1
            return await super().took(answer_id)

    assert await taken(Counted(*[False] * 6, True, open_for=100)) is True
    assert asked < 8
