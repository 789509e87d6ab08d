"""The scripted stand-ins that answer when there is no key: a few rules each, and no LLM."""

import re
from typing import Any

from durable_adk.models import LlmRequest, ScriptedModel

DARK = re.compile(r"\b(alone|dark|dead|ghost|grave|lonely|lost|sad|shadow|war)", re.IGNORECASE)
TURN = "One night there was an anwser."
END = "From then on nobody called that house emtpy."
SPELLING = {"teh": "the", "anwser": "answer", "emtpy": "empty"}


def _message(request: LlmRequest) -> str:
    """What the user asks for, which is what the first agent sees last."""
    last = request.contents[-1:]  # empty if the message is
    return " ".join(part.text or "" for content in last for part in content.parts or [])


def _field(request: LlmRequest, name: str) -> str:
    """What the agent's instruction has between <name> and </name>: a value of the state."""
    config: Any = request.config
    return str(config.system_instruction).partition(f"<{name}>")[2].partition(f"</{name}>")[0]


def _write(request: LlmRequest) -> str:
    asked = re.sub(r"^.*?\babout\s+", "", _message(request)).strip(" .!?") or "nothing at all"
    return f"This is the story of {asked}. Every evening a question was asked in teh last house."


def _criticise(request: LlmRequest) -> str:
    story = _field(request, "story")
    if TURN not in story:
        return "It lacks a turn: let something happen that never happened before."
    return "It lacks nothing." if END in story else "It lacks an end: what was different then?"


def _revise(request: LlmRequest) -> str:
    criticism = _field(request, "criticism")
    lacking = {"a turn": TURN, "an end": END, "nothing": ""}
    added = next(text for lack, text in lacking.items() if f"lacks {lack}" in criticism)
    return f"{_field(request, 'story')} {added}".strip()


def _correct(request: LlmRequest) -> str:
    return re.sub(r"\w+", lambda word: SPELLING.get(word[0], word[0]), _field(request, "story"))


def _judge(request: LlmRequest) -> str:
    return "dark" if DARK.search(_field(request, "story")) else "bright"


def _brighten(request: LlmRequest) -> str:
    return f"{_field(request, 'story')} And in the morning the kettle sang, as it always had."


writer = ScriptedModel(replies=_write)
critic = ScriptedModel(replies=_criticise)
reviser = ScriptedModel(replies=_revise)
grammar_check = ScriptedModel(replies=_correct)
tone_check = ScriptedModel(replies=_judge)
brightener = ScriptedModel(replies=_brighten)
