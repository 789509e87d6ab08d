"""What attempts know of those before them."""

from hypothesis import given, strategies as st

from durable_adk.activities.reports import NONE, Reports

ENDS = st.lists(st.sampled_from(["lost", "failed", "excused", "elsewhere"]), max_size=30)


@given(ENDS)
def test_every_attempt_is_lost_told_or_excused(ends: list[str]) -> None:
    """F12, F16: whatever the order, the numbers are those that counting by hand gives."""
    reports, number = NONE, 1
    for end in ends:
        if end != "lost":
            elsewhere = end == "elsewhere"
            reports = reports.after(
                number, excused=elsewhere or end == "excused", elsewhere=elsewhere
            )
        reports = Reports.of([reports.model_dump(mode="json")])  # as a heartbeat carries it
        number += 1
    excused = [n for n, end in enumerate(ends, 1) if end in ("excused", "elsewhere")]
    assert reports.lost(number) == [n for n, end in enumerate(ends, 1) if end == "lost"]
    assert reports.elsewhere == ends.count("elsewhere")
    assert reports.counted(number) == number - len(excused)
    assert list(reports.in_vain(number)) == [n for n in range(1, number) if n not in excused]


def test_a_long_outage_is_a_few_numbers() -> None:
    """I14: what each heartbeat carries does not grow with the attempts of an outage."""
    reports = NONE
    for number in range(1, 10_000):
        reports = reports.after(number, excused=True)
    assert reports.excused == reports.told == ((1, 9_999),)


def test_heartbeats_of_other_versions_tell_nothing() -> None:
    """D6, I20: those of a worker before reports existed, and fields that a later one adds."""
    assert Reports.of([]) == NONE
    assert Reports.of([{"told": [[1, 2]], "later": True}]) == Reports(told=((1, 2),))
