"""A chain with a fan-out: what a text has of words, letters and vowels."""

from google.adk import Context, Event, Workflow
from google.adk.tools import FunctionTool
from google.adk.workflow import JoinNode
from pydantic import BaseModel


class Report(BaseModel):
    text: str = ""
    longest: str | None = None
    reports: int = 0


def clean(node_input: str) -> Event:
    words = node_input.lower().split()
    return Event(output=words, state={"text": " ".join(words)})


def count(node_input: list[str]) -> int:
    return len(node_input)


def longest(ctx: Context, node_input: list[str]) -> str:
    word = max(node_input, key=len)
    ctx.state["longest"] = word
    return word


def vowels(words: list[str]) -> dict[str, int]:
    """Counts the vowels of some words."""
    text = "".join(words)
    found = {letter: text.count(letter) for letter in "aeiou"}
    return {letter: number for letter, number in found.items() if number}


def summarise(node_input: dict, text: str, reports: int = 0) -> Event:
    title = f"{text!r}: {node_input['count']} words"
    return Event(output={"title": title, **node_input}, state={"reports": reports + 1})


def announce(node_input: dict, longest: str):
    yield Event(message=f"{node_input['title']}, the longest is {longest}.")
    yield node_input


root_agent = Workflow(
    name="word_stats",
    state_schema=Report,
    edges=[
        (
            "START",
            clean,
            (count, longest, FunctionTool(vowels)),
            JoinNode(name="all_three"),
            summarise,
            announce,
        ),
    ],
)
