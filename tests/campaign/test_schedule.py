"""A seed stands for its faults."""

from collections import Counter

from hypothesis import given, strategies as st

from campaign.schedule import MINIMUM, least, schedule

SEEDS = st.integers(0, 10**6)
SECONDS = st.floats(20, 400)


@given(SEEDS, SECONDS)
def test_a_seed_is_the_same_faults_again(seed: int, seconds: float) -> None:
    """One command does a run's faults again."""
    assert schedule(seed, seconds) == schedule(seed, seconds)


@given(SEEDS, SECONDS)
def test_every_run_has_faults_of_each_kind(seed: int, seconds: float) -> None:
    """The guards ask for no more than is scheduled, and all are within the run."""
    faults = schedule(seed, seconds)
    kinds = Counter(fault.kind for fault in faults)
    assert all(kinds[kind] >= number for kind, number in least(seconds).items())
    assert least(seconds).keys() == MINIMUM.keys()
    assert all(0 <= fault.at <= seconds and 0 <= fault.pick < 1 for fault in faults)
