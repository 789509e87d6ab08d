"""Stored events: their parts, and their normal form, which must be the same in two runs."""

import re
from typing import Any

ASK = re.compile(r'(?<=#)\d+|(?<="ask":)\d+|"timestamp":[-+.\de]+,')
"""Which ask an answer came from, and clocks."""
_ANSWER = re.compile(r"(?<=\.answer\.)\w+")
"""Which of several equal answers came first."""
_NAMES = re.compile(r"\bi\d+\b|adk-[-0-9a-f]{36}")


def normalized(bodies: list[str]) -> list[str]:
    """Return stored events without clocks, request numbers and ids of clients."""
    names: dict[str, str] = {}

    def numbered(found: re.Match[str]) -> str:
        return names.setdefault(found[0], f"<{len(names)}>")

    return [_NAMES.sub(numbered, _ANSWER.sub("", ASK.sub("", body))) for body in bodies]


def bare(body: str) -> str:
    """Return a stored event without any ids."""
    return _NAMES.sub("", _ANSWER.sub("", ASK.sub("", body)))


def calls(events: list[Any]) -> list[Any]:
    """The function calls in events."""
    return [part["functionCall"] for part in parts(events) if "functionCall" in part]


def responses(events: list[Any]) -> list[Any]:
    """The function responses in events."""
    return [part["functionResponse"] for part in parts(events) if "functionResponse" in part]


def parts(events: list[Any]) -> list[Any]:
    """All parts of events."""
    return [part for event in events for part in event.get("content", {}).get("parts", ())]
