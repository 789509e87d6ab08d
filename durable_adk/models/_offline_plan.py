"""Which tools a message asks for, in which order, with which arguments."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from google.genai import types

from durable_adk.models._offline_arguments import Filling, Parameter, meant, parameters
from durable_adk.models._offline_evidence import Evidence
from durable_adk.models._offline_words import meanings, only_looks

_BY_NAME = 3
_ENOUGH = 2
_LONG = 2000
_MORE = re.compile(r"\s*(?:and|what about|how about)\b", re.IGNORECASE)
_CLAUSE = re.compile(r"(?:[;\n]|[.?!](?=\s)|,?\s(?:and|then|also|plus)(?=\s))+")


@dataclass(frozen=True)
class Choice:
    """Something a message may ask for: a tool, or the hand-over to an agent."""

    name: str
    description: str
    parameters: Sequence[Parameter] = ()
    fixed: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """Arguments that belong to the choice itself."""

    @property
    def label(self) -> str:
        """How it is shown to a user."""
        names = [*self.fixed.values(), *(parameter.name for parameter in self.parameters)]
        return f"{self.name}({', '.join(names)})"

    def named_by(self) -> set[str]:
        """The meanings of its name."""
        return meanings(" ".join([self.name if not self.fixed else "", *self.fixed.values()]))

    def score(self, text: str) -> int:
        """How well `text` fits: a word of the name counts three, of the description one.

        Arguments that can all be read off the text count one more.
        """
        words = meanings(text)
        described = meanings(self.description).union(*map(meant, self.parameters))
        by_name = words & self.named_by()
        score = _BY_NAME * len(by_name) + len((words & described) - by_name)
        return score + self.is_complete(text) if score else 0

    def is_complete(self, text: str) -> bool:
        """Whether `text` holds all arguments that are required."""
        filling = self.filling(text)
        return not filling.guessed and not filling.missing()

    def filling(self, text: str) -> Filling:
        """The arguments that `text` gives."""
        filling = Filling(self.parameters, Evidence(text, self.named_by()))
        filling.fill()
        return filling


@dataclass(frozen=True)
class Step:
    """One call that a message asks for."""

    choice: Choice
    arguments: dict[str, Any]
    missing: list[str]


def choices(tools: Sequence[Any] | None) -> Iterator[Choice]:
    """What the tools of a request offer."""
    for tool in tools or ():
        if isinstance(tool, types.Tool):
            for declaration in tool.function_declarations or ():
                schema = declaration.parameters_json_schema
                if schema is None and declaration.parameters is not None:
                    schema = declaration.parameters.model_dump(exclude_none=True)
                yield Choice(
                    declaration.name or "", declaration.description or "", parameters(schema)
                )


def plan(message: str, offered: Sequence[Choice], before: str | None = None) -> list[Step]:
    """The calls `message` asks for, in the order it asks; none if nothing fits.

    Args:
        message: The user's message.
        offered: What may be called.
        before: The tool that was called last, for messages like "and of Spain?".
    """
    pieces = list(_pieces(message, offered))
    if not pieces and (best := _best(message, offered)):
        pieces = [(best, message)]
    more = _MORE.match(message)
    if not pieces and more:
        last = next((choice for choice in offered if choice.name == before), None)
        rest = message[more.end() :]
        pieces = [(choice, rest) for choice in [_again(last, rest)] if choice]
    return [_step(choice, text, message) for choice, text in pieces]


def _step(choice: Choice, text: str, message: str) -> Step:
    filling = choice.filling(text)
    if any(not parameter.is_free for parameter in filling.missing()):
        filling = choice.filling(message)
    missing = [parameter.name for parameter in filling.missing()]
    return Step(choice, {**choice.fixed, **filling.in_order()}, missing)


def _pieces(message: str, offered: Sequence[Choice]) -> Iterator[tuple[Choice, str]]:
    """The message cut where another call begins; what begins none belongs to the one before."""
    current: Choice | None = None
    begin = 0
    for start, end in _clauses(message):
        clause = message[start:end]
        found = _best(clause, offered) or _again(current, clause)
        if found is None or (found == current and not _stands_alone(found, clause)):
            continue
        if current is not None:
            yield current, message[begin:start]
            begin = start
        current = found
    if current is not None:
        yield current, message[begin:]


def _clauses(message: str) -> Iterator[tuple[int, int]]:
    start = 0
    for match in _CLAUSE.finditer(message) if len(message) <= _LONG else ():
        yield start, match.start()
        start = match.end()
    yield start, len(message)


def _best(text: str, offered: Sequence[Choice]) -> Choice | None:
    scores = [choice.score(text) for choice in offered]
    highest = max(scores, default=0)
    return offered[scores.index(highest)] if highest >= _ENOUGH else None


def _stands_alone(choice: Choice, clause: str) -> bool:
    """Whether `clause` is another call of the same tool and not more of its arguments."""
    listed = any(parameter.kind == "array" for parameter in choice.parameters)
    return choice.is_complete(clause) and not listed


def _again(choice: Choice | None, clause: str) -> Choice | None:
    """The same question about another thing: ``the weather in Paris and in Rome``."""
    if choice is None or not only_looks(choice.name):
        return None
    needed = [parameter for parameter in choice.parameters if parameter.required]
    named = [found for found in Evidence(clause).found if found.kind in {"name", "quoted"}]
    whole = len(clause.split()) <= sum(len(found.text.split()) for found in named) + 1
    return choice if len(needed) == len(named) == 1 and whole else None
