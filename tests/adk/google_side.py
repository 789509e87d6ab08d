"""google-adk's side, in a process of its own: each line of JSON it reads is answered by one."""

import asyncio
import json
import os
import sys
import warnings
from pathlib import Path
from typing import Any

from tests.adk.alias import ADKS, switch
from tests.adk.names import packages, public_names

# As if they were not installed: what tests/interop needs is no part of google-adk without extras.
for name in ("a2a", "anthropic", "litellm", "mcp", "openai", "sqlalchemy"):
    sys.modules[name] = None  # type: ignore[assignment]

switch()

from tests.adk.generated import conversation  # noqa: E402  # the next four too
from tests.adk.graphs import graph_conversation  # noqa: E402
from tests.adk.play import play  # noqa: E402  # it has to find the switched names
from tests.adk.programs import PROGRAMS  # noqa: E402
from tests.scenarios.catalogue import BY_NAME  # noqa: E402


async def answer(order: dict[str, Any]) -> Any:
    """What google-adk makes of an order."""
    if "names" in order:
        return public_names(ADKS)
    if "packages" in order:
        return packages(ADKS)
    if "described" in order:
        return await play(conversation(order["described"]))
    if "graph" in order:
        return await play(graph_conversation(order["graph"]))
    if "program" in order:
        return await PROGRAMS[order["program"]](Path(order["folder"]))
    return await play(BY_NAME[order["scenario"]])


def main() -> None:
    """Answer until the input ends; what the conversations print goes to the standard error."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    warnings.simplefilter("ignore")
    with asyncio.Runner() as runner:
        for line in sys.stdin:
            told = runner.run(answer(json.loads(line)))
            print(json.dumps(told), file=answers, flush=True)


if __name__ == "__main__":
    main()
