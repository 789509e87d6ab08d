"""The scripted stand-ins that answer when there is no key: a few rules each, and no LLM.

A researcher calls its tool with the city of the message, then puts the result into a sentence. The
editor puts the three sentences together.
"""

import re
from collections.abc import Callable
from typing import Any

from google.genai import types

from durable_adk.models import LlmRequest, ScriptedModel

WARM, CHEAP = 25, 100


def _researcher(tool: str, tell: Callable[[dict[str, Any]], str]) -> ScriptedModel:
    def answer(request: LlmRequest) -> str | types.Part:
        last = next(
            (part for content in request.contents[-1:] for part in content.parts or []),
            types.Part(text=""),
        )
        if last.function_response:
            found = last.function_response.response or {}
            return str(found["error"]) if "error" in found else tell(found)
        names = re.findall(r"\b[A-Z]\w+", last.text or "")
        return types.Part.from_function_call(name=tool, args={"city": "".join(names[-1:])})

    return ScriptedModel(replies=answer)


def _brief(request: LlmRequest) -> str:
    config: Any = request.config
    found = re.findall(r"<(\w+)>(.*)</\1>", str(config.system_instruction))
    told = "\n".join(f"{name.capitalize()}: {text}" for name, text in found)
    warmest, room = (re.search(rf"(-?\d+) {unit}", told) for unit in ("degrees", "euros a night"))
    if warmest is None or room is None:
        return f"{told}\nI cannot say whether I would go."
    reasons = [
        "it is warm" if int(warmest[1]) >= WARM else "it is not warm",
        "a room is cheap" if int(room[1]) < CHEAP else "a room is not cheap",
    ]
    verdict = "would not go" if all("not" in reason for reason in reasons) else "would go"
    return f"{told}\nI {verdict}: {' and '.join(reasons)}."


climate_researcher = _researcher(
    "get_climate",
    lambda found: f"{found['warmest']} degrees at its warmest, {found['coldest']} at its coldest.",
)
cost_researcher = _researcher(
    "get_costs",
    lambda found: f"A room is {found['room']} euros a night, a coffee {found['coffee']} euros.",
)
sights_researcher = _researcher(
    "get_sights", lambda found: f"There are {' and '.join(found['sights'])}."
)
editor = ScriptedModel(replies=_brief)
