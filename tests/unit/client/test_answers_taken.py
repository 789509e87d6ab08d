"""What a client is told of its answer while nobody can say what became of it."""

from typing import Any

import pytest

from durable_adk.client import runs
from durable_adk.client.runs import TemporalRuns
from durable_adk.errors import TemporalUnavailableError


class Handle:
    """Of a workflow that ends, and whose queries are not always answered."""

    invocation_id = "i"

    def __init__(self, *said: bool | None, open_for: int = 0) -> None:
        self._said = list(said)
        self._open_for = open_for

    async def took(self, answer_id: str) -> bool | None:
        """What comes next; the last one again and again."""
        assert answer_id == "a"
        return self._said.pop(0) if len(self._said) > 1 else self._said[0]

    async def is_open(self) -> bool:
        """For some looks."""
        self._open_for -= 1
        return self._open_for >= 0


class Workers:
    """There is one."""

    async def check_worker(self, invocation_id: str) -> None:
        """See `Invocations.check_worker`."""
        assert invocation_id == "i"


@pytest.fixture
def taken(monkeypatch: pytest.MonkeyPatch) -> Any:
    """`TemporalRuns._is_taken`, with little patience."""
    monkeypatch.setattr(runs, "WORKER_CHECK", 0.05)
    monkeypatch.setattr(runs, "PATIENCE", 0.5)
    made: Any = TemporalRuns(Workers(), object())  # pyright: ignore[reportArgumentType]
    return lambda handle: made._is_taken(handle, "a")


async def test_silence_is_not_a_no(taken: Any) -> None:
    """I12: an answer that a run has taken before it ended is not said to be lost."""
    nothing = [None] * 20
    assert await taken(Handle(*nothing, True)) is True


async def test_a_no_before_the_end_is_asked_again(taken: Any) -> None:
    """It may be taken at the last moment; what counts is said after the end."""
    noes = [False] * 2
    assert await taken(Handle(*noes, None, True, open_for=1)) is True
    assert await taken(Handle(False)) is False


async def test_silence_has_an_end(taken: Any) -> None:
    """I11: nothing waits for ever, and nobody is told what is not known."""
    with pytest.raises(TemporalUnavailableError, match="had taken the answer"):
        await taken(Handle(None))
