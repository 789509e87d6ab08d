"""Writes declared.json anew: the differences there are, with the rows they are declared by."""

import asyncio
import json
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.adk.compare import Difference, differences
from tests.adk.declared import DECLARED, ONLY_OURS
from tests.adk.google_adk import GoogleAdk
from tests.adk.play import play
from tests.scenarios.catalogue import SCENARIOS
from tests.scenarios.scenario import Scenario
from tests.support.required import interpreter

BOTH = [scenario for scenario in SCENARIOS if scenario.name not in ONLY_OURS]
"""The scenarios that google-adk plays too."""

AT_ONCE = {"experts_are_asked_side_by_side"}
"""Besides those with a ParallelAgent."""


async def unequal(scenario: Scenario, google_adk: GoogleAdk) -> list[Difference]:
    """What is not the same of a scenario, but for what is declared for all."""
    adks = google_adk.ask(scenario=scenario.name)
    by_agent = scenario.side_by_side or scenario.name in AT_ONCE
    return differences(await play(scenario), adks, by_agent=by_agent)


def by_row(name: str, found: Sequence[Difference]) -> Mapping[str, Sequence[str]]:
    """The kinds of a scenario's differences by their rows; of those without, the row is empty."""
    rows = {kind: row for row, kinds in DECLARED.get(name, {}).items() for kind in kinds}
    kinds = sorted({difference.kind for difference in found})
    told = sorted({rows.get(kind, "") for kind in kinds})
    return {row: [kind for kind in kinds if rows.get(kind, "") == row] for row in told}


async def main() -> None:
    """Play all scenarios on both sides."""
    with (
        tempfile.TemporaryDirectory() as folder,
        GoogleAdk(interpreter("adk"), Path(folder) / "log") as google_adk,
    ):
        found = {one.name: by_row(one.name, await unequal(one, google_adk)) for one in BOTH}
    told = {name: rows for name, rows in found.items() if rows}
    Path(__file__).with_name("declared.json").write_text(json.dumps(told, indent=1) + "\n")


if __name__ == "__main__":
    asyncio.run(main())
