"""How often who waits for a session asks."""

import pytest

from durable_adk.activities.attempting import MAX_BUSY_DELAY, busy_delay
from durable_adk.errors import SessionBusyError
from durable_adk.sessions._pausing import RESUMING_TTL


@pytest.mark.parametrize("running", [0.5, 5.0, 60.0])
def test_all_who_wait_for_one_session_ask_some_times_a_second_together(running: float) -> None:
    """I22: however many they are, and however long the active one runs."""
    delays = [
        busy_delay(SessionBusyError(ahead=ahead, remaining=running + ahead * 0.2))
        for ahead in range(4, 200)
    ]
    assert sum(1 / delay for delay in delays) < 40
    assert delays == sorted(delays)


def test_a_delay_has_bounds() -> None:
    """Who is next is tried again soon, and a resumption before its ticket would expire."""
    assert busy_delay(SessionBusyError()) == 0.25
    assert busy_delay(SessionBusyError(ahead=1000, remaining=1e9)) == MAX_BUSY_DELAY
    assert MAX_BUSY_DELAY < RESUMING_TTL / 2
