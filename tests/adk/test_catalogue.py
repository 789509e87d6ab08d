"""The scenarios of the catalogue, played by google-adk too."""

import re

import pytest

from tests.adk.compare import differences
from tests.adk.declared import DECLARED, EVERYWHERE, ONLY_OURS, Rule
from tests.adk.google_adk import GoogleAdk
from tests.adk.play import play
from tests.adk.record import BOTH, unequal
from tests.scenarios.catalogue import BY_NAME
from tests.scenarios.scenario import Scenario
from tests.support.compatibility import cells


@pytest.mark.parametrize("scenario", BOTH, ids=lambda scenario: scenario.name)
async def test_a_conversation_goes_as_in_google_adk(
    scenario: Scenario, google_adk: GoogleAdk
) -> None:
    """Events, state, artifacts, prompts and hooks are the same, or differ as a row declares."""
    found = await unequal(scenario, google_adk)
    print(*found, sep="\n")  # noqa: T201  # shown with a failure
    declared = {kind for kinds in DECLARED.get(scenario.name, {}).values() for kind in kinds}
    assert [one for one in found if one.kind not in declared] == []


@pytest.mark.parametrize("rule", EVERYWHERE, ids=lambda rule: f"{rule.row} {rule.shown}")
async def test_what_is_declared_for_all_is_there(rule: Rule, google_adk: GoogleAdk) -> None:
    """A rule that leaves out nothing which differs is to go."""
    others = [one for one in EVERYWHERE if one is not rule]
    ours, adks = await play(BY_NAME[rule.shown]), google_adk.ask(scenario=rule.shown)
    assert differences(ours, adks, others)


def test_what_is_declared_has_a_row() -> None:
    """It is in the list of differences, and names an existing scenario."""
    rows = {re.sub(r" \(\[.*", "", row[0]) for row in cells("The differences in one list")}
    of_scenarios = {row for kinds in DECLARED.values() for row in kinds}
    assert {rule.row for rule in EVERYWHERE} | of_scenarios | {*ONLY_OURS.values()} <= rows
    assert {*DECLARED, *ONLY_OURS} <= BY_NAME.keys()
