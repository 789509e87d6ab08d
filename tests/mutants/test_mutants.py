"""Every seeded bug is noticed by the check that is named for it."""

import pytest

from tests.mutants.catalogue import MUTANTS
from tests.mutants.checks import CHECKS
from tests.mutants.mutant import Mutant


def test_every_seeded_bug_can_be_planted() -> None:
    """What a mutant changes is still there, under the name and with the text that it expects."""
    gone: dict[str, str] = {}
    for mutant in MUTANTS:
        with pytest.MonkeyPatch.context() as patch:
            try:
                mutant.breaks(patch)
            except (AssertionError, AttributeError) as error:
                gone[mutant.name] = str(error)
    assert gone == {}


@pytest.mark.thorough
@pytest.mark.sampled(6)
@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_a_seeded_bug_is_noticed_by_its_check(
    mutant: Mutant, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A check that cannot fail checks nothing: with the bug in, it finds something wrong."""
    mutant.breaks(monkeypatch)
    assert CHECKS[mutant.check]()


@pytest.mark.thorough
@pytest.mark.sampled(6)
def test_the_code_as_it_is_passes_the_check() -> None:
    """What notices a bug is silent without it; tests/simulation holds that for the other checks."""
    assert not CHECKS["refused"]()


def test_every_check_is_named_by_a_mutant() -> None:
    """There are at least 25 bugs, under names of their own, and no check without any."""
    assert len({mutant.name for mutant in MUTANTS}) == len(MUTANTS) >= 25
    assert {mutant.check for mutant in MUTANTS} == set(CHECKS)
