"""The scenarios with google-adk's objects, run by us.

`SCENARIOS_OF_GOOGLE_ADK=1 .venv/adk/bin/python -m pytest tests/scenarios -o filterwarnings=` runs
them in every way there is.
"""

import pytest

from tests.support.google_adk import run_tests

OBJECTS = {"SCENARIOS_OF_GOOGLE_ADK": "1"}
# The scenarios are one in two or in four. Shares of these runs that have no divisor in common with
# those let each scenario have its turn.


@pytest.mark.thorough
@pytest.mark.sampled(30)
@pytest.mark.timeout(1200)
def test_conversations_with_google_adks_objects_survive_kills() -> None:
    """In process, on Temporal and with the worker killed after an event: the same comes of them."""
    quick = "(temporal or in_process) and custom or killed"
    run_tests("tests/scenarios", "-m", "not thorough", "-k", quick, timeout=1180, **OBJECTS)


@pytest.mark.thorough
@pytest.mark.sampled(30)
@pytest.mark.timeout(1200)
def test_more_conversations_with_google_adks_objects_survive_kills() -> None:
    """The worker is killed after an event of one in four, and another one continues.

    All of them are played with objects of ours; what differs is converted before an event is made.
    """
    run_tests("tests/scenarios", "-m", "thorough", "-k", "killed", timeout=1180, **OBJECTS)
