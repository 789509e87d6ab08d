"""What attempts know of those before them."""

import json

import pytest
from hypothesis import given, strategies as st
from temporalio.api.common.v1 import Payload

from durable_adk.attempt_history import MARK, NO_ATTEMPTS, AttemptHistory, is_attempt_history

ENDS = st.lists(
    st.sampled_from(["lost", "failed", "excused", "unregistered", "toolset_failures"]), max_size=30
)


def carried(reports: AttemptHistory) -> AttemptHistory:
    """As a heartbeat carries it to the next attempt."""
    details = [json.loads(raw.payload.data) for raw in reports.details()]
    assert all(is_attempt_history(raw.payload) for raw in reports.details())
    return AttemptHistory.of(details)


@given(ENDS)
def test_every_attempt_is_lost_told_or_excused(ends: list[str]) -> None:
    """F12, F16: whatever the order, the numbers are those that counting by hand gives."""
    reports, number = NO_ATTEMPTS, 1
    for end in ends:
        if end != "lost":
            unregistered, toolset_failures = end == "unregistered", end == "toolset_failures"
            reports = reports.after(
                number,
                excused=unregistered or toolset_failures or end == "excused",
                unregistered=unregistered,
                toolset_failures=toolset_failures,
            )
        reports = carried(reports)
        number += 1
    excused = [
        n for n, end in enumerate(ends, 1) if end in ("excused", "unregistered", "toolset_failures")
    ]
    assert reports.lost(number) == [n for n, end in enumerate(ends, 1) if end == "lost"]
    assert reports.unregistered == ends.count("unregistered")
    assert reports.toolset_failures == ends.count("toolset_failures")
    assert reports.counted(number) == number - len(excused)
    assert list(reports.unexcused(number)) == [n for n in range(1, number) if n not in excused]


def test_a_long_outage_is_a_few_numbers() -> None:
    """I14: what each heartbeat carries does not grow with the attempts of an outage."""
    reports = NO_ATTEMPTS
    for number in range(1, 10_000):
        reports = reports.after(number, excused=True)
    assert reports.excused == reports.reported == ((1, 9_999),)


def test_heartbeats_of_other_versions_tell_nothing() -> None:
    """D6, I20: those of a worker before reports existed, and fields that a later one adds."""
    assert AttemptHistory.of([]) == NO_ATTEMPTS
    assert AttemptHistory.of([{"reported": [[1, 2]], "later": True}]) == AttemptHistory(
        reported=((1, 2),)
    )


def signed_by(worker: str) -> AttemptHistory:
    """As the next attempt reads what attempt 3 has sent."""
    return carried(AttemptHistory(reported=((1, 1),)).signed(3, worker))


@pytest.mark.parametrize("worker", ["17@host.example", "1@pod-7f@eu/west+1:a_b", "x" * 128])
def test_a_history_names_the_worker_that_has_sent_it(worker: str) -> None:
    """The next attempt learns on which worker the last one was lost, and of no other attempt."""
    history = signed_by(worker)
    assert [history.worker_of(number) for number in (1, 2, 3, 4)] == [None, None, worker, None]
    assert history.lost(4) == [2, 3]


@pytest.mark.parametrize("worker", ["", "x" * 129, "two words", "näme", "a\x1b[31m", "17@host\n"])
def test_an_identity_that_does_not_fit_is_left_out(worker: str) -> None:
    """I14, S5: a heartbeat carries neither long texts nor any others, but the rest as ever."""
    assert signed_by(worker) == AttemptHistory(reported=((1, 1),))


@pytest.mark.parametrize("worker", ["", "\x1b[", "ü", "1" * 129, "1\n", '"', "a b"], ids=ascii)
def test_a_forged_identity_names_nobody(worker: str) -> None:
    """S5: who writes heartbeats into Temporal gets no other text into a terminal or a page."""
    history = AttemptHistory.of([{"reported": [[1, 2]], "number": 3, "worker": worker}])
    assert history.worker_of(3) is None
    assert history.reported == ((1, 2),)


def test_details_that_cannot_be_read_tell_nothing() -> None:
    """I11: whatever is there, no step ends for it."""
    assert AttemptHistory.of(["text"]) == AttemptHistory.of([{"reported": "x"}]) == NO_ATTEMPTS


@pytest.mark.parametrize(
    "data", [b'{"app":"x"}', b'"text"', b'{"told":[[1,2]],"x":{}}', b"{}{}", b'{"told":"1"}', b""]
)
def test_nothing_but_numbers_passes_for_reports(data: bytes) -> None:
    """S5: encryption lets reports pass, and so nobody may write anything else under their mark."""
    assert not is_attempt_history(Payload(metadata={MARK: b"1"}, data=data))
