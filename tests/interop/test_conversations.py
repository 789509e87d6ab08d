"""The conversations of tests/adk with google-adk's objects, by its runner and by ours."""

import pytest

from tests.adk.compare import differences
from tests.adk.declared import DECLARED
from tests.adk.google_adk import GoogleAdk
from tests.adk.record import AT_ONCE, BOTH
from tests.scenarios.scenario import Scenario

OWN = {
    # Who said what, and when, is there in the text; here the memories of one message are apart.
    "a_memory_is_shown_before_it_is_asked_for": {"requests.N.contents.N.parts.N.text"},
}
"""What differs with google-adk's own objects only, by scenario."""


@pytest.mark.parametrize("scenario", BOTH, ids=lambda scenario: scenario.name)
def test_objects_of_google_adk_do_here_what_they_do_there(
    scenario: Scenario, google_adk: GoogleAdk, interop: GoogleAdk
) -> None:
    """Agents, tools, callbacks and models as they are: events, state, prompts and hooks."""
    ours, adks = (side.ask(scenario=scenario.name) for side in (interop, google_adk))
    by_agent = scenario.side_by_side or scenario.name in AT_ONCE
    found = differences(ours, adks, by_agent=by_agent)
    print(*found, sep="\n")  # noqa: T201  # shown with a failure
    declared = {kind for kinds in DECLARED.get(scenario.name, {}).values() for kind in kinds}
    declared |= OWN.get(scenario.name, set())
    assert [one for one in found if one.kind not in declared] == []
