"""What the offline model says."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from google.genai import types

from durable_adk.models._offline_words import READING, split

_FINE = frozenset({"success", "ok", "okay", "successful", "succeeded"})
_MARKS = ("status", "success", "ok")
REMEDY = (
    "For real answers set GEMINI_API_KEY (https://aistudio.google.com/apikey) and give the agent "
    "model='gemini-2.5-flash'."
)


def no_tool(tools: Sequence[str]) -> str:
    """Why there is no answer, and what would help."""
    offer = (
        f"The tools I can call are: {', '.join(tools)}." if tools else "This agent has no tools."
    )
    return (
        "I am the small offline model, not an LLM: I match the words of your message with the "
        f"agent's tools, and none fits this one. {offer} {REMEDY}"
    )


def ask_for(tool: str, missing: Sequence[str]) -> str:
    """The question for arguments that the message does not hold."""
    names = _listed([" ".join(split(name)).lower() for name in missing])
    return f"To call {tool} I still need: {names}."


def is_question(text: str) -> bool:
    """Whether `text` was said by `ask_for`."""
    return bool(re.fullmatch(r"To call \S+ I still need: .*\.", text))


def result(call: types.FunctionCall, response: Mapping[str, Any] | None) -> str:
    """A tool's response as a sentence; `response` is None while it has not come."""
    if response is None:
        return f"{call.name} has not answered yet."
    values = dict(response)
    problem = _problem(values)
    if problem is not None:
        return f"{call.name} failed: {problem}".rstrip(".") + "."
    for mark in _MARKS:
        if values.get(mark) is True or str(values.get(mark)).lower() in _FINE:
            del values[mark]
    value: Any = next(iter(values.values())) if len(values) == 1 else values
    text = _plain(value)
    if isinstance(value, str) and (len(text.split()) > 3 or text.endswith((".", "!", "?"))):  # noqa: PLR2004  # a sentence already
        return text
    lead = _lead(call)
    if not text:
        return f"{lead} is done."
    if "\n" in text:
        return f"{lead}:\n{text}"
    return f"{lead}{' is' if _asks(call) and not isinstance(value, dict) else ':'} {text}."


def _problem(values: Mapping[str, Any]) -> str | None:
    failed = str(values.get("status", "")).lower() in {"error", "failed", "failure"}
    for key in ("error_message", "error", "errorMessage"):
        if values.get(key):
            return _plain(values[key])
    if failed or values.get("success") is False or values.get("ok") is False:
        rest = {key: value for key, value in values.items() if key not in _MARKS}
        return _plain(rest) or "no reason given"
    return None


def _asks(call: types.FunctionCall) -> bool:
    words = split(call.name or "")
    return len(words) > 1 and words[0].lower() in READING


def _lead(call: types.FunctionCall) -> str:
    """How the sentence begins: ``The capital for France``, or the tool's name and arguments."""
    words = [word.lower() for word in split(call.name or "")]
    values = list((call.args or {}).values())
    if _asks(call):
        about = ", ".join(value for value in values if isinstance(value, str))
        return f"The {' '.join(words[1:])}" + (f" for {about}" if about else "")
    arguments = ", ".join(map(_plain, values))
    return " ".join(words).capitalize() + (f" ({arguments})" if arguments else "")


def _plain(value: Any) -> str:
    """A JSON value as words; several lines only for a list of objects."""
    match value:
        case None:
            return ""
        case bool():
            return "yes" if value else "no"
        case list() | tuple():
            items: list[Any] = list(value)  # pyright: ignore[reportUnknownArgumentType]: JSON
            if any(isinstance(item, dict) for item in items):
                return "\n".join(f"- {_plain(item)}" for item in items)
            return _listed([_plain(item) for item in items]) or "nothing"
        case dict():
            pairs: dict[str, Any] = value  # pyright: ignore[reportUnknownVariableType]: JSON
            return ", ".join(
                f"{' '.join(split(key)).lower()} {_inner(v)}" for key, v in pairs.items()
            )
        case _:
            return str(value)


def _inner(value: Any) -> str:
    text = _plain(value)
    return f"({text.replace(chr(10), ' ')})" if isinstance(value, dict) else text or "none"


def _listed(items: Sequence[str]) -> str:
    return " and ".join([", ".join(items[:-1]), items[-1]]) if len(items) > 1 else "".join(items)
