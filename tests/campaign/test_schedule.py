"""A seed determines the faults."""

from collections import Counter

from hypothesis import given, strategies as st

from campaign.links import STORES, links_of
from campaign.schedule import ALL_LINKS, MINIMUM, NETWORK, Kind, least, least_links, schedule

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


@given(SEEDS, st.floats(ALL_LINKS, 400), st.sampled_from(STORES))
def test_every_run_breaks_each_link_that_it_has(seed: int, seconds: float, store: str) -> None:
    """F23: what is done to the network is dealt to all links, and to none that is not there."""
    links = links_of(store)
    faults = schedule(seed, seconds, links=links)
    broken = Counter(fault.link for fault in faults if fault.link is not None)
    asked = least_links(seconds, links)
    assert broken.keys() == asked.keys() == {*links}
    assert all(broken[link] >= number >= 1 for link, number in asked.items())
    assert all((fault.link is not None) == (fault.kind in NETWORK) for fault in faults)


def test_no_link_is_asked_for_where_nothing_is_done_to_the_network() -> None:
    """A crowd's workers are killed, and that is all."""
    assert not any(least_links(60, links_of("sqlite"), [Kind.KILL_WORKER]).values())
    assert not any(least_links(ALL_LINKS - 1, links_of("sqlite")).values())
