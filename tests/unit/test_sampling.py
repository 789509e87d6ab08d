"""Which share of a matrix a run of the tests takes."""

import pytest

from tests.support import sampling


@pytest.mark.parametrize("of", [2, 3, 9])
def test_equal_numbers_take_the_same_and_all_numbers_take_all(
    of: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each is taken by one number in `of`, whatever it is called."""
    for name in ("a", "b", "test[c-1]"):
        turns: list[int] = []
        for number in range(17, 17 + of):
            monkeypatch.setattr(sampling, "SAMPLE", str(number))
            monkeypatch.setattr(sampling, "ALL", False)
            turns.append(sampling.turn(name, of))
            assert sampling.is_taken(name, of) == (turns[-1] == 0)
        assert sorted(turns) == list(range(of))


def test_all_takes_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also what no number would take."""
    monkeypatch.setattr(sampling, "ALL", True)
    assert all(sampling.is_taken(str(name), 9) for name in range(20))
