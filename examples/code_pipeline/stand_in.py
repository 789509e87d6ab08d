"""The scripted stand-ins that answer when there is no key: a few rules each, and no LLM.

The writer knows one kind of function: counting certain characters. The reviewer's findings are
searched for in the code, and the refactorer does something about each.
"""

import re
from typing import Any

from durable_adk.models import LlmRequest, ScriptedModel

CHARACTERS = {"vowels": "aeiou", "digits": "0123456789", "brackets": "()[]{}", "spaces": " "}
FINDINGS = {
    r"\):\n": "The types are not told: annotate the parameter and the result.",
    r"\A(?!.*\"\"\")": "There is no docstring: say in a sentence what it counts.",
    r"range\(len": "It loops over positions: loop over the characters themselves.",
    r"\bn = n \+ 1": "It counts by hand: let sum() do it.",
    r"aeiou\"(?!.*lower)": "Capital letters are not counted: compare in lower case.",
}


def _message(request: LlmRequest) -> str:
    """What the user asks for, which is what the first agent sees last."""
    last = request.contents[-1:]  # empty if the message is
    return " ".join(part.text or "" for content in last for part in content.parts or [])


def _field(request: LlmRequest, name: str) -> str:
    """What the agent's instruction has between <name> and </name>: a value of the state."""
    config: Any = request.config
    return str(config.system_instruction).partition(f"<{name}>")[2].partition(f"</{name}>")[0]


def _write(request: LlmRequest) -> str:
    message = _message(request).lower()
    what = next((what for what in CHARACTERS if what in message), "vowels")
    return f"""\
def count_{what}(text):
    n = 0
    for i in range(len(text)):
        if text[i] in "{CHARACTERS[what]}":
            n = n + 1
    return n"""


def _review(request: LlmRequest) -> str:
    code = _field(request, "code")
    found = [text for sign, text in FINDINGS.items() if re.search(sign, code, re.DOTALL)]
    return "\n".join(f"- {text}" for text in found) or "No findings."


def _refactor(request: LlmRequest) -> str:
    code, findings = _field(request, "code"), _field(request, "findings")
    function = re.search(r'def (count_(\w+))\(.* in ("[^"]*")', code, re.DOTALL)
    if function is None or findings == "No findings.":
        return code
    name, what, characters = function.groups()
    character = "character.lower()" if "lower case" in findings else "character"
    return f'''\
def {name}(text: str) -> int:
    """The number of {what} in a text."""
    return sum({character} in {characters} for character in text)'''


writer = ScriptedModel(replies=_write)
reviewer = ScriptedModel(replies=_review)
refactorer = ScriptedModel(replies=_refactor)
