"""The scripted stand-ins that answer when there is no key: a few rules each, and no LLM."""

import re
from typing import Any

from google.genai import types

from durable_adk.models import LlmRequest, ScriptedModel

MOST_WORDS = 8
FILLERS = ("actually", "finally", "just", "quite", "really", "simply", "very")


def _message(request: LlmRequest) -> str:
    """What the user asks for, which is what the first agent sees last."""
    last = request.contents[-1:]  # empty if the message is
    return " ".join(part.text or "" for content in last for part in content.parts or [])


def _field(request: LlmRequest, name: str) -> str:
    """What the agent's instruction has between <name> and </name>: a value of the state."""
    config: Any = request.config
    return str(config.system_instruction).partition(f"<{name}>")[2].partition(f"</{name}>")[0]


def _draft(request: LlmRequest) -> str:
    told = _message(request).rpartition(": ")[2]
    return told.strip(" .").capitalize() or "No news"


def _criticise(request: LlmRequest) -> str:
    words = _field(request, "headline").split()
    filler = next((word for word in words if word.lower() in FILLERS), None)
    if filler:
        return f'Leave out "{filler}": nothing is lost without it.'
    if len(words) > MOST_WORDS:
        return f'Leave out "{words[-1]}": these are {len(words)} words.'
    return "Good."


def _refine(request: LlmRequest) -> str | types.Part:
    word = re.search(r'"(.+)"', _field(request, "criticism"))
    if word is None:
        return types.Part.from_function_call(name="exit_loop", args={})
    words = _field(request, "headline").split()
    words.remove(word[1])
    return " ".join(words).capitalize()


drafter = ScriptedModel(replies=_draft)
critic = ScriptedModel(replies=_criticise)
refiner = ScriptedModel(replies=_refine)
