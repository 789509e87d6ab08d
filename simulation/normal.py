"""Stored events, freed from what may differ between two runs."""

import re

ASK = re.compile(r'(?<=#)\d+|(?<="ask":)\d+|"timestamp":[-+.\de]+,')
"""Which ask an answer came from, and clocks."""
_ANSWER = re.compile(r"(?<=\.answer\.)\w+")
"""Which of several equal answers came first."""
_NAMES = re.compile(r"\bi\d+\b|adk-[-0-9a-f]{36}")


def told(bodies: list[str]) -> list[str]:
    """Stored events as they must be in every run: without clocks, asks and the names of clients."""
    names: dict[str, str] = {}

    def numbered(found: re.Match[str]) -> str:
        return names.setdefault(found[0], f"<{len(names)}>")

    return [_NAMES.sub(numbered, _ANSWER.sub("", ASK.sub("", body))) for body in bodies]


def bare(body: str) -> str:
    """A stored event without any names."""
    return _NAMES.sub("", _ANSWER.sub("", ASK.sub("", body)))
