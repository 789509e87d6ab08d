"""Our side of a conversation with google-adk's objects, in a process of google-adk's environment.

Each line of JSON that it reads is answered by one.
"""

import asyncio
import json
import os
import sys
import warnings
from typing import Any

warnings.simplefilter("ignore")

from tests.adk.alias import adks_modules  # noqa: E402

GENERATED, GRAPHS, CATALOGUE, SCRIPTED = adks_modules(
    "tests.adk.generated", "tests.adk.graphs", "tests.scenarios.catalogue", "tests.adk.scripted"
)

from tests.adk.play import play  # noqa: E402


async def answer(order: dict[str, Any]) -> Any:
    """What comes of an order here."""
    if "graph" in order:
        scenario = GRAPHS.graph_conversation(order["graph"])
    elif "described" in order:
        scenario = GENERATED.conversation(order["described"])
    else:
        scenario = CATALOGUE.BY_NAME[order["scenario"]]
    return await play(scenario, SCRIPTED.ScriptedModel)


def main() -> None:
    """Answer until the input ends; what the conversations print goes to the standard error."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    with asyncio.Runner() as runner:
        for line in sys.stdin:
            told = runner.run(answer(json.loads(line)))
            print(json.dumps(told), file=answers, flush=True)


if __name__ == "__main__":
    main()
